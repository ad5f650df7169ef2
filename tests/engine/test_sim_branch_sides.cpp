// What sides of a region's branches do to errors, memory, handles and executables.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

TEST_CASE("What a run overwrites on whichever side is not failed by what failed before", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 5);
  Region region(engine, gpu(0), "branching");
  const auto overwrite = [&](std::size_t to, std::size_t from) {
    engine.push(
        {.name = "copy",
         .device = gpu(0),
         .access = {read(cells->of_words[from]), out(cells->of_words[to])},
         .capturable = true},
        [words = cells->words, to, from](Queue queue) {
          sim_launch(queue, [words, to, from] { words[to] = words[from] + 1; });
        });
  };
  // Word 0 goes to word 4 on either side of two branches, through memory that is the branch's own or made for it.
  const auto run = [&] {
    region.run(1, [&] {
      RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
      branch.owns(cells->of_words[1]);
      overwrite(1, 0);
      {
        RegionBranch inner(engine, condition_of(*cells, 1), SourceLocation::current());
        overwrite(4, 1);
        inner.otherwise();
        overwrite(4, 0);
      }
      branch.otherwise();
      const Var made = engine.new_var();
      engine.push(
          {.name = "make", .device = gpu(0), .access = {read(cells->of_words[0]), out(made)}, .capturable = true},
          [words = cells->words](Queue queue) { sim_launch(queue, [words] { words[2] = words[0] + 2; }); });
      engine.push(
          {.name = "take", .device = gpu(0), .access = {read(made), out(cells->of_words[4])}, .capturable = true},
          [words = cells->words](Queue queue) { sim_launch(queue, [words] { words[4] = words[2]; }); });
    });
  };
  const auto set_input = [&](bool fails) {
    engine.push({.name = "input", .device = gpu(0), .access = {out(cells->of_words[0])}}, [fails](Queue) {
      if (fails)
        throw ValueError("broken");
    });
  };
  for (int round = 0; round < 2; ++round) {
    for (const int byte : {0, 1}) {
      set_input(true);
      run();
      CHECK(text_of_error([&] { engine.wait(cells->of_words[4]); }).find("broken") != std::string::npos);
      set_input(false);
      cells->bytes[0] = static_cast<unsigned char>(byte);
      run();
      CHECK_NOTHROW(engine.wait(cells->of_words[4]));
      CHECK(cells->words[4] == (byte == 0 ? 3 : 2));
    }
  }
  CHECK(region.counts().captured == 1);
}

TEST_CASE(
    "What a side reads before it overwrites it counts, and what one side alone overwrites", "[sim][region][branch]") {
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 4);
  Region region(engine, gpu(0), "branching");
  const auto use = [&](std::size_t i, bool overwrites) {
    const Access access = overwrites ? out(cells->of_words[i]) : read(cells->of_words[i]);
    engine.push(
        {.name = "use", .device = gpu(0), .access = {access, write(cells->of_words[3])}, .capturable = true},
        [words = cells->words](Queue queue) { sim_launch(queue, [words] { ++words[3]; }); });
  };
  for (std::size_t failed = 0; failed < 3; ++failed) {
    CAPTURE(failed);
    engine.push({.name = "culprit", .device = gpu(0), .access = {out(cells->of_words[failed])}}, [](Queue) {
      throw ValueError("broken");
    });
    region.run(failed, [&] {
      RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
      for (int side = 0; side < 2; ++side) {
        use(0, side == 0);
        use(0, true);
        branch.owns(cells->of_words[1]);
        use(1, side == 1);
        if (side == 1)
          use(2, true);
        branch.otherwise();
      }
    });
    CHECK(text_of_error([&] { engine.wait(cells->of_words[failed]); }).find("culprit") != std::string::npos);
    for (const Var& var : cells->of_words) {
      engine.push({.name = "mend", .device = gpu(0), .access = {out(var)}}, [](Queue) {});
      engine.wait(var);
    }
  }
}

TEST_CASE(
    "A side with what no body of a conditional node takes leaves tasks that run in order", "[sim][region][branch]") {
  const auto host = [](const Queue& queue, Cells&) {
    cudaLaunchHostFunc(
        static_cast<cudaStream_t>(queue.stream()), [](void*) {}, nullptr);
  };
  const auto event = [](const Queue& queue, Cells&) {
    cudaEvent_t made = nullptr;
    cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    cudaEventRecordWithFlags(made, static_cast<cudaStream_t>(queue.stream()), cudaEventRecordExternal);
    cudaEventDestroy(made);
  };
  const auto from_the_host = [](const Queue& queue, Cells& cells) {
    static const Word word = 1;
    cudaMemcpyAsync(
        cells.words + 1, &word, sizeof word, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(queue.stream()));
  };
  const auto within = [](const Queue& queue, Cells& cells) {
    const auto stream = static_cast<cudaStream_t>(queue.stream());
    cudaMemcpyAsync(cells.words + 1, cells.words, sizeof(Word), cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(cells.words + 2, 0, sizeof(Word), stream);
  };
  const auto captures = [](void (*body)(const Queue&, Cells&), bool nests) {
    Sim sim;
    Engine engine({.workers = 1});
    const auto cells = std::make_shared<Cells>(engine, 3);
    Region region(engine, gpu(0), "branching");
    region.run(1, [&] {
      RegionBranch outer(engine, condition_of(*cells, 0), SourceLocation::current());
      std::optional<RegionBranch> inner;
      if (nests)
        inner.emplace(engine, condition_of(*cells, 1), SourceLocation::current());
      engine.push(
          {.name = "body", .device = gpu(0), .access = {write(cells->of_words[1])}, .capturable = true},
          [cells, body](Queue queue) { body(queue, *cells); });
    });
    engine.wait_all();
    CHECK(region.refusal().has_value() == (region.counts().in_order == 1));
    sim::take_violations();
    return region.counts().captured == 1;
  };
  for (const bool nests : {false, true}) {
    CHECK_FALSE(captures(host, nests));
    CHECK_FALSE(captures(event, nests));
    CHECK_FALSE(captures(from_the_host, nests));
    CHECK(captures(within, nests));
  }
}

TEST_CASE("Executables of graphs with branches are made anew, and go with what was recorded", "[sim][region][branch]") {
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
    CHECK(sim::calls("cudaGraphExecDestroy") == run + 1);
  }
  CHECK(region.counts().instantiated == 3);
  CHECK(region.counts().updated == 0);
}

namespace {

/// Steps that hand each other memory, and count how many use it at once.
struct Lending {
  explicit Lending(Engine& engine) : engine(engine), cells(std::make_shared<Cells>(engine, 3)) {}

  /// A step that reads and writes that cell; `body` borrows and keeps.
  void push(std::size_t cell, std::function<void()> body) {
    engine.push(
        {.name = "step", .device = gpu(0), .access = {write(cells->of_words[cell])}, .capturable = true},
        [this, body = std::move(body)](Queue queue) {
          body();
          region_keeps(kept);
          sim_launch(queue, [this] {
            shared += users++ != 0;
            for (int i = 0; i < 50; ++i)
              std::this_thread::yield();  // so that others come in, if they may
            --users;
          });
        });
  }
  static RetireHook* borrow(bool waits = false) {
    return region_lends([](const RetireHook&, const void*) -> std::size_t { return 1; }, nullptr, waits);
  }

  Engine& engine;
  std::shared_ptr<Cells> cells;
  Kept kept;
  std::atomic<int> users{0}, shared{0};
  RetireHook *within = nullptr, *other = nullptr, *behind = nullptr, *beside = nullptr, *later = nullptr;
};

void push_lending(Lending& steps) {
  {
    RegionBranch branch(steps.engine, condition_of(*steps.cells, 0), SourceLocation::current());
    steps.push(0, [] {});
    steps.push(1, [&] { steps.within = Lending::borrow(); });
    branch.otherwise();
    steps.push(1, [&] { steps.other = Lending::borrow(); });
  }
  steps.push(1, [&] { steps.behind = Lending::borrow(); });
  steps.push(2, [&] {  // which no Var puts behind the branch
    steps.beside = Lending::borrow();
    steps.later = Lending::borrow(true);
  });
}

}  // namespace

TEST_CASE("Memory that a side keeps serves the other side and who comes after the branch", "[sim][region][branch]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    Engine engine({.workers = 1});
    Lending steps(engine);
    Region region(engine, gpu(0), "branching");
    for (int run = 0; run < 4; ++run) {
      steps.cells->bytes[0] = static_cast<unsigned char>(run % 2);
      region.run(1, [&] { push_lending(steps); });
      engine.wait_all();
    }
    REQUIRE(region.counts().captured == 1);
    CHECK(steps.within == &steps.kept);
    CHECK(steps.other == &steps.kept);
    CHECK(steps.behind == &steps.kept);
    CHECK(steps.beside == nullptr);
    CHECK(steps.later == &steps.kept);
    CHECK(steps.shared == 0);
    CHECK(steps.kept.told == 0);
    region.forget();
    engine.wait_all();
    CHECK(steps.kept.told == 1);
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
      RegionBranch branch(engine, condition_of(*cells, 0), SourceLocation::current());
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

TEST_CASE("A library handle is used on the stream that it was made for, in sides too", "[sim][region][branch]") {
  struct Handle {
    explicit Handle(const Queue& queue) : stream(queue.stream()) {}
    void* stream;
  };
  Sim sim;
  Engine engine({.workers = 1});
  const auto cells = std::make_shared<Cells>(engine, 3);
  std::fill_n(cells->bytes, 3, static_cast<unsigned char>(1));
  Region region(engine, gpu(0), "branching");
  const auto use = [&] {
    engine.push(
        {.name = "user", .device = gpu(0), .access = {write(cells->of_words[0])}, .capturable = true},
        [words = cells->words](Queue queue) {
          const auto stream = static_cast<cudaStream_t>(queue.slot<Handle>().stream);
          sim::launch(stream, [words] { words[0] *= 3; });
        });
  };
  for (int run = 0; run < 2; ++run) {
    region.run(1, [&] {
      use();
      {
        RegionBranch outer(engine, condition_of(*cells, 0), SourceLocation::current());
        use();
        {
          RegionBranch inner(engine, condition_of(*cells, 1), SourceLocation::current());
          use();
          inner.otherwise();
          use();
        }
        use();
      }
      use();
    });
    engine.wait_all();
  }
  CHECK(region.counts().captured == 1);
  CHECK(cells->words[0] == 59049);  // 3 to the power of 2 * 5
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
