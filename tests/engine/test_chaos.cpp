// Schedules drawn from a seed: any order is one that no program can tell from the order of its pushes.
#include <atomic>
#include <set>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Run {
  History history;
  std::vector<int> order = {};  // in which the bodies ran
};

Run run_chaos(const Program& program, std::uint64_t seed) {
  Engine engine({.cpu_policy = CpuMode::chaos, .chaos_seed = seed});
  Run run{.history = History(program)};
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    engine.push({.name = "step", .access = access_of(program.steps[i], vars)}, [&, i] {
      run_step(program.steps[i], i, run.history.cells.data(), run.history.seen[i]);
      run.order.push_back(static_cast<int>(i));
    });
  }
  engine.wait_all();
  return run;
}

/// Each seed has a program of its own, and the same order of its bodies when it runs again.
void check_seeds(std::uint64_t first, int seeds) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(seeds); ++seed) {
    CAPTURE(seed);
    const std::uint32_t cells[] = {2, 6, 20, 80};
    const Program program = random_program(seed, 40 + seed % 200, cells[seed % 4], 1);
    const Run run = run_chaos(program, seed);
    REQUIRE(differs_from_serial(program, run.history) == "");
    REQUIRE(run_chaos(program, seed).order == run.order);
    orders.insert(run.order);
  }
  CHECK(orders.size() == static_cast<std::size_t>(seeds));
}

}  // namespace

TEST_CASE("T10: a seed gives the same schedule again, another seed another one") {
  const Program program = random_program(5, 2000, 40, 1);
  const Run first = run_chaos(program, 11), again = run_chaos(program, 11), other = run_chaos(program, 12);
  CHECK(first.order.size() == program.steps.size());
  CHECK((first.order == again.order));
  CHECK((first.order != other.order));
}

TEST_CASE("T10, T35: under many seeds a random graph gives what a serial loop gives") {
  const Program program = random_program(6, 300, 12, 1);
  std::vector<int> in_push_order;
  for (int i = 0; i < 300; ++i)
    in_push_order.push_back(i);
  int reordered = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Run run = run_chaos(program, seed);
    CHECK(differs_from_serial(program, run.history) == "");
    reordered += run.order != in_push_order ? 1 : 0;
  }
  CHECK(reordered == 300);
}

TEST_CASE("T10: under chaos every wait returns, from several threads, in tasks and outside") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Engine engine({.cpu_policy = CpuMode::chaos, .chaos_seed = seed});
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        Var x = engine.new_var(), y = engine.new_var();
        for (int k = 0; k < 50; ++k) {
          engine.push({.name = "outer", .access = {write(x)}}, [&] {
            engine.push({.name = "inner", .access = {write(y)}}, [&] { ++done; });
            engine.wait(y);
          });
          if (k % 8 == 0)
            engine.wait(x);
        }
        engine.wait(x);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    CHECK(done == 150);
  }
}

TEST_CASE("T10: 300 seeds, each with a program of its own, give what a serial loop gives, and the same order again") {
  check_seeds(1, scaled(300));
}

TEST_CASE("T10: a thousand seeds", "[.long]") {
  check_seeds(100'000, 1000);
}
