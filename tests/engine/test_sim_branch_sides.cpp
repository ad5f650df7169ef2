// What sides of a region's branches do to errors, memory, handles and executables.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/engine/expect.h"
#include "tests/engine/sim_branches.h"

using namespace sluice;
using namespace sluice::test;
using detail::RegionBranch;

TEST_CASE("What a side overwrites is what it was where the other side runs, errors too", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 2);
  Region region(engine, gpu(0), "branching");
  engine.push({.name = "culprit", .device = gpu(0), .access = {write(cells->of_words[1])}}, [](Queue) {
    throw ValueError("broken");
  });
  region.run(1, [&] {
    RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
    engine.push(
        {.name = "fill", .device = gpu(0), .access = {out(cells->of_words[1])}, .capturable = true},
        [words = cells->words](Queue queue) { sim_launch(queue, [words] { words[1] = 9; }); });
  });
  CHECK(text_of_error([&] { engine.wait(cells->of_words[1]); }).find("culprit") != std::string::npos);
}

TEST_CASE("Executables of graphs with branches are made anew", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 2);
  Region region(engine, gpu(0), "branching");
  for (int run = 0; run < 3; ++run) {
    region.run(1, [&] {
      RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
      engine.push(
          {.name = "fill", .device = gpu(0), .access = {out(cells->of_words[1])}, .capturable = true},
          [words = cells->words](Queue queue) { sim_launch(queue, [words] { ++words[1]; }); });
    });
    engine.wait_all();
    region.forget();
  }
  CHECK(region.counts().instantiated == 3);
  CHECK(region.counts().updated == 0);
}

TEST_CASE("Memory that a side keeps serves who comes after its branch, and no other side", "[sim][region][branch]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    Engine engine({.workers = 1});
    const auto cells = std::make_shared<Cells>(engine, 3);
    cells->bytes[0] = 1;
    Kept kept;
    std::atomic<int> users{0}, shared{0};
    RetireHook *behind = nullptr, *within = nullptr, *other = nullptr, *beside = nullptr;
    const auto use = [&](Queue queue) {
      sim_launch(queue, [&users, &shared] {
        shared += users++ != 0;
        for (int i = 0; i < 50; ++i)
          std::this_thread::yield();  // so that others come in, if they may
        --users;
      });
    };
    const RegionCost any = [](const RetireHook&, const void*) -> std::size_t { return 1; };
    Region region(engine, gpu(0), "branching");
    for (int run = 0; run < 3; ++run) {
      region.run(1, [&] {
        const auto push = [&](const Var& var, std::function<void()> body) {
          engine.push(
              {.name = "step", .device = gpu(0), .access = {write(var)}, .capturable = true},
              [body = std::move(body), &use](Queue queue) {
                body();
                use(queue);
              });
        };
        {
          RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
          push(cells->of_words[0], [&] { region_keeps(kept); });
          push(cells->of_words[1], [&] {
            within = region_lends(any, nullptr, true);
            region_keeps(kept);
          });
          branch.otherwise();
          push(cells->of_words[1], [&] { other = region_lends(any, nullptr, true); });
        }
        push(cells->of_words[2], [&] {
          beside = region_lends(any, nullptr);
          behind = region_lends(any, nullptr, true);
          region_keeps(kept);
        });
      });
    }
    engine.wait_all();
    REQUIRE(region.counts().captured == 1);
    CHECK(within == &kept);
    CHECK(other == nullptr);
    CHECK(beside == nullptr);
    CHECK(behind == &kept);
    CHECK(shared == 0);
    CHECK(kept.told == 0);
    region.forget();
    engine.wait_all();
    CHECK(kept.told == 1);
  }
}

TEST_CASE("A task of a side that throws fails the region under its own name", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 2);
  Region region(engine, gpu(0), "branching");
  bool throws = true;
  const auto run = [&] {
    region.run(1, [&] {
      RegionBranch branch(
          engine,
          {.name = "choose", .device = gpu(0), .var = cells->of_bytes[0], .byte = cells->bytes, .set = set_by_kernel},
          SourceLocation::current());
      engine.push(
          {.name = "thrower", .device = gpu(0), .access = {write(cells->of_words[1])}, .capturable = true},
          [&throws, cells](Queue queue) {
            if (throws)
              throw ValueError("no");
            sim_launch(queue, [words = cells->words] { words[1] = 9; });
          });
    });
  };
  run();
  CHECK(text_of_error([&] { engine.wait(cells->of_words[1]); }).find("thrower") != std::string::npos);
  throws = false;
  engine.push({.name = "mend", .device = gpu(0), .access = {out(cells->of_words[1])}}, [](Queue) {});
  run();
  engine.wait(cells->of_words[1]);
  CHECK(cells->words[1] == 1);  // the byte is zero
  cells->bytes[0] = 1;
  run();
  engine.wait(cells->of_words[1]);
  CHECK(cells->words[1] == 9);
  CHECK(region.counts().captured == 1);
}

TEST_CASE("Branches beside each other have library handles of their own", "[sim][region][branch]") {
  struct Handle {
    explicit Handle(const Queue&) {}
  };
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 4);
  Region region(engine, gpu(0), "branching");
  std::vector<const Handle*> used;
  region.run(1, [&] {
    for (std::size_t i = 0; i < 2; ++i) {
      RegionBranch branch(engine, condition_of(*cells, i), SourceLocation::current());
      for (int side = 0; side < 2; ++side) {
        engine.push(
            {.name = "user", .device = gpu(0), .access = {write(cells->of_words[i])}, .capturable = true},
            [&used, words = cells->words, i](Queue queue) {
              used.push_back(&queue.slot<Handle>());
              sim_launch(queue, [words, i] { ++words[i]; });
            });
        branch.otherwise();
      }
    }
  });
  engine.wait_all();
  REQUIRE(used.size() == 4);
  CHECK(used[0] == used[1]);
  CHECK(used[2] == used[3]);
  CHECK(used[0] != used[2]);
}

TEST_CASE("A branch stands in what a region records, and nowhere else", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 1);
  CHECK_THROWS_AS(RegionBranch(engine, condition_of(*cells, 0), SourceLocation::current()), ValueError);
}
