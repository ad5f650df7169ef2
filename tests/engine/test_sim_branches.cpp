// Branches of regions: of two sides the one that a byte in the GPU's memory says, on the simulated CUDA runtime.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/sim_branches.h"

using namespace sluice;
using namespace sluice::test;
using detail::RegionBranch;
using detail::RegionLoop;

namespace {

/// A task that mixes two cells into a third one, or a branch or a loop by a cell, which is set before it.
struct Item {
  std::size_t a = 0, b = 0, to = 0;
  Word salt = 0;
  bool overwrites = false, is_branch = false, is_loop = false;
  std::vector<Item> sides[2] = {};
};

std::vector<Item> random_items(std::mt19937_64& draw, std::size_t cells, int depth) {
  std::vector<Item> items(2 + draw() % 6);
  for (Item& item : items) {
    item = {.a = draw() % cells, .b = draw() % cells, .to = draw() % cells, .salt = draw()};
    item.overwrites = draw() % 3 == 0;
    item.is_branch = depth > 0 && draw() % 3 == 0;
    item.is_loop = depth > 0 && !item.is_branch && draw() % 6 == 0;
    for (auto& side : item.sides) {
      if ((item.is_branch || item.is_loop) && draw() % 6 != 0)
        side = random_items(draw, cells, depth - 1);
    }
  }
  return items;
}

constexpr Word k_most_turns = 3;

Word result_of(const Item& item, Word a, Word b, Word old) {
  return mix(item.salt + 3 * a + 5 * b + (item.overwrites ? 0 : 7 * old));
}

void run_serially(const std::vector<Item>& items, std::vector<Word>& words) {
  for (const Item& item : items) {
    if (item.is_branch) {
      run_serially(item.sides[words[item.a] % 2 == 1 ? 0 : 1], words);
    } else if (item.is_loop) {
      for (Word turns = 0; turns < k_most_turns && words[item.a] % 2 == 1; ++turns)
        run_serially(item.sides[0], words);
    } else {
      words[item.to] = result_of(item, words[item.a], words[item.b], words[item.to]);
    }
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
      else if (item.is_loop)
        push_loop(item);
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
    RegionBranch branch(engine_, condition_of(*cells_, item.a), SourceLocation::current());
    push(item.sides[0]);
    branch.otherwise();
    push(item.sides[1]);
  }

  /// The first time, or behind a turn.
  void push_turn(const Item& item, const Var& of_turns, const std::shared_ptr<Word>& turns, bool first) {
    const Task task{
        .name = "turn",
        .device = gpu(0),
        .access =
            {read(cells_->of_words[item.a]), out(cells_->of_bytes[item.a]), first ? out(of_turns) : write(of_turns)},
        .capturable = true};
    engine_.push(task, [cells = cells_, a = item.a, turns, first](Queue queue) {
      sim_launch(queue, [words = cells->words, bytes = cells->bytes, a, turns, first] {
        *turns = first ? 0 : *turns + 1;
        bytes[a] = words[a] % 2 == 1 && *turns < k_most_turns ? 1 : 0;
      });
    });
  }

  void push_loop(const Item& item) {
    const auto turns = std::make_shared<Word>(0);
    const Var of_turns = engine_.new_var();
    push_turn(item, of_turns, turns, true);
    RegionLoop loop(engine_, condition_of(*cells_, item.a), SourceLocation::current());
    push(item.sides[0]);
    push_turn(item, of_turns, turns, false);
    loop.end_turn();
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

TEST_CASE("Branches and loops of a region go on as memory says at each replay", "[sim][region][branch]") {
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
