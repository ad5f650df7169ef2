// Branches of regions: of two sides the one that a byte in the GPU's memory says, on the simulated CUDA runtime.
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/detail/region_branch.h>

#include "tests/engine/expect.h"
#include "tests/engine/sim_region.h"

namespace device_sim {
void set_condition(unsigned long long handle, unsigned value) noexcept;
}

using namespace sluice;
using namespace sluice::test;
using detail::RegionBranch;

namespace {

void set_by_kernel(const Queue& queue, unsigned long long handle, const void* byte) {
  sim_launch(queue, [handle, byte] { device_sim::set_condition(handle, *static_cast<const unsigned char*>(byte)); });
}

/// Words and bytes where the simulated GPU has its memory, a Var each.
struct Cells {
  Cells(Engine& engine, std::size_t count) : count(count) {
    void* made = nullptr;
    cudaMalloc(&made, count * sizeof(Word));
    words = static_cast<Word*>(made);
    std::fill_n(words, count, Word{1});
    cudaMalloc(&made, count);
    bytes = static_cast<unsigned char*>(made);
    std::fill_n(bytes, count, static_cast<unsigned char>(0));
    for (std::size_t i = 0; i < count; ++i) {
      of_words.push_back(engine.new_var());
      of_bytes.push_back(engine.new_var());
    }
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  ~Cells() {
    cudaFree(words);
    cudaFree(bytes);
  }

  std::size_t count;
  Word* words = nullptr;
  unsigned char* bytes = nullptr;
  std::vector<Var> of_words, of_bytes;
};

/// A task that mixes two cells into a third one, or a branch by a cell, which is set before it.
struct Item {
  std::size_t a = 0, b = 0, to = 0;
  Word salt = 0;
  bool overwrites = false, is_branch = false;
  std::vector<Item> sides[2] = {};
};

std::vector<Item> random_items(std::mt19937_64& draw, std::size_t cells, int depth) {
  std::vector<Item> items(2 + draw() % 6);
  for (Item& item : items) {
    item = {.a = draw() % cells, .b = draw() % cells, .to = draw() % cells, .salt = draw()};
    item.overwrites = draw() % 3 == 0;
    item.is_branch = depth > 0 && draw() % 3 == 0;
    for (auto& side : item.sides) {
      if (item.is_branch && draw() % 6 != 0)
        side = random_items(draw, cells, depth - 1);
    }
  }
  return items;
}

Word result_of(const Item& item, Word a, Word b, Word old) {
  return mix(item.salt + 3 * a + 5 * b + (item.overwrites ? 0 : 7 * old));
}

void run_serially(const std::vector<Item>& items, std::vector<Word>& words) {
  for (const Item& item : items) {
    if (item.is_branch)
      run_serially(item.sides[words[item.a] % 2 == 1 ? 0 : 1], words);
    else
      words[item.to] = result_of(item, words[item.a], words[item.b], words[item.to]);
  }
}

/// Pushes items while a region records. Bodies of some tasks spoil the capture.
class Pusher {
 public:
  Pusher(Engine& engine, const std::shared_ptr<Cells>& cells, bool spoils)
      : engine_(engine), cells_(cells), spoils_(spoils) {}

  void push(const std::vector<Item>& items) {
    for (const Item& item : items) {
      if (item.is_branch)
        push_branch(item);
      else
        push_task(item);
    }
  }

 private:
  void push_task(const Item& item) {
    Task task{.name = "mix", .device = gpu(0), .capturable = true};
    task.access.push_back(read(cells_->of_words[item.a]));
    task.access.push_back(read(cells_->of_words[item.b]));
    const Var& to = cells_->of_words[item.to];
    const bool overwrites = item.overwrites && item.to != item.a && item.to != item.b;
    task.access.push_back(overwrites ? out(to) : write(to));
    const bool spoils = spoils_ && item.salt % 5 == 0;
    engine_.push(
        task, [cells = cells_, item = Item{item.a, item.b, item.to, item.salt, item.overwrites}, spoils](Queue queue) {
          if (spoils)
            spoil(queue);
          sim_launch(queue, [words = cells->words, item] {
            words[item.to] = result_of(item, words[item.a], words[item.b], words[item.to]);
          });
        });
  }

  void push_branch(const Item& item) {
    const Task task{
        .name = "ask",
        .device = gpu(0),
        .access = {read(cells_->of_words[item.a]), out(cells_->of_bytes[item.a])},
        .capturable = true};
    engine_.push(task, [cells = cells_, a = item.a](Queue queue) {
      sim_launch(queue, [words = cells->words, bytes = cells->bytes, a] {
        bytes[a] = static_cast<unsigned char>(words[a] % 2);
      });
    });
    RegionBranch branch(
        engine_,
        {.name = "choose",
         .device = gpu(0),
         .var = cells_->of_bytes[item.a],
         .byte = cells_->bytes + item.a,
         .set = set_by_kernel},
        SourceLocation::current());
    push(item.sides[0]);
    branch.otherwise();
    push(item.sides[1]);
  }

  Engine& engine_;
  const std::shared_ptr<Cells> cells_;
  const bool spoils_;
};

/// Runs a random program again and again as a region; "" if cells are each time what a serial loop leaves.
std::string run_program(std::uint64_t seed, bool spoils, RegionCounts& counts) {
  std::mt19937_64 draw(seed);
  const std::size_t count = 3 + draw() % 5;
  const std::vector<Item> items = random_items(draw, count, 3);
  Engine engine({.workers = 2});
  const auto cells = std::make_shared<Cells>(engine, count);
  Region region(engine, gpu(0), "branching");
  std::vector<Word> expected(count, 1);
  for (int run = 0; run < 6; ++run) {
    region.run(1, [&] { Pusher(engine, cells, spoils).push(items); });
    run_serially(items, expected);
    engine.wait_all();
    if (!std::equal(expected.begin(), expected.end(), cells->words))
      return message("run ", run, " left something else");
  }
  counts = region.counts();
  return {};
}

}  // namespace

TEST_CASE("Branches of a region take the side that memory says at each replay", "[sim][region][branch]") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    RegionCounts counts;
    CHECK(run_program(seed, false, counts) == "");
    CHECK(counts.captured == 1);
    CHECK(counts.in_order == 0);
  }
}

TEST_CASE(
    "Where a body spoils the capture, tasks of a side run one by one if the host finds it taken",
    "[sim][region][branch]") {
  std::uint64_t in_order = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    RegionCounts counts;
    CHECK(run_program(seed, true, counts) == "");
    in_order += counts.in_order;
  }
  CHECK(in_order > 60);
}

TEST_CASE("What CUDA refuses of a branch leaves tasks that run in order", "[sim][region][branch]") {
  for (const char* call :
       {"cudaGraphConditionalHandleCreate",
        "cudaGraphAddNode",
        "cudaStreamBeginCaptureToGraph",
        "cudaStreamGetCaptureInfo",
        "cudaStreamUpdateCaptureDependencies",
        "cudaGraphInstantiate"}) {
    for (int nth = 1; nth <= 4; ++nth) {
      CAPTURE(call, nth);
      Sim sim;
      sim::fail_nth(call, nth, cudaErrorNotSupported);
      RegionCounts counts;
      CHECK(run_program(2, false, counts) == "");
      CHECK((sim::failed_call().empty() || counts.in_order > 0));
    }
  }
}

namespace {

detail::BranchCondition condition_of(const Cells& cells, std::size_t i) {
  return {.name = "choose", .device = gpu(0), .var = cells.of_bytes[i], .byte = cells.bytes + i, .set = set_by_kernel};
}

/// Keeps what a capture's bodies hand over until it is told.
struct Kept final : RetireHook {
  void on_retire(const PositionSet&) noexcept override { ++told; }
  int told = 0;
};

}  // namespace

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
