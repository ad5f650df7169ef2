// The random-graph oracle: whatever the engine does, the numbers are those of a serial loop.
#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/gate.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Outcome {
  History history;
  std::vector<std::uint64_t> versions = {};  // of the Vars, without the gate's write
};

/// Pushes the program and waits. `gated`: nothing may start before all is pushed, so every edge is a real one.
Outcome run_on_cpu(Engine& engine, const Program& program, bool gated) {
  Outcome outcome{.history = History(program)};
  History& history = outcome.history;
  std::vector<Var> vars(program.cells);
  AccessList all;
  for (Var& var : vars) {
    var = engine.new_var();
    all.push_back(write(var));
  }
  Gate gate;
  OpensAtEnd opens(gate);
  if (gated)
    engine.push({.name = "gate", .access = all}, [gate] { gate.wait(); });
  from_pushers(program, [&](std::size_t i) {
    engine.push({.name = "step", .access = access_of(program.steps[i], vars)}, [&program, &history, i] {
      run_step(program.steps[i], i, history.cells.data(), history.seen[i]);
    });
  });
  gate.open();
  engine.wait_all();
  for (const Var& var : vars)
    outcome.versions.push_back(var.version() - (gated ? 1 : 0));
  return outcome;
}

void check_versions(const Outcome& outcome) {
  std::vector<std::uint64_t> writers;
  for (const Cell& cell : outcome.history.cells)
    writers.push_back(cell.writers);
  CHECK(outcome.versions == writers);
}

void check_serial(const Program& program, const Outcome& outcome) {
  CHECK(differs_from_serial(program, outcome.history) == "");
  check_versions(outcome);
}

void check_serialisable(const Program& program, const Outcome& outcome) {
  CHECK(not_serialisable(program, outcome.history) == "");
  check_versions(outcome);
}

/// A fault for as long as it lives.
class PlantedFault {
 public:
  explicit PlantedFault(int every) { detail::test_faults().drop_every_nth_edge = every; }
  ~PlantedFault() { detail::test_faults().drop_every_nth_edge = 0; }
  PlantedFault(const PlantedFault&) = delete;
  PlantedFault& operator=(const PlantedFault&) = delete;
};

struct Setting {
  CpuMode policy;
  int workers;
  int hot_reads = 256;
};
// With hot_reads = 2 readers come and go by the gates of Vars all the time.
const Setting k_settings[] = {
    {CpuMode::serial, 1},
    {CpuMode::pool, 1},
    {CpuMode::pool, 2},
    {CpuMode::pool, 8},
    {CpuMode::chaos, 1},
    {CpuMode::chaos_pool, 3},
    {CpuMode::pool, 2, 2},
    {CpuMode::chaos_pool, 4, 1}};
const int k_steps = scaled(100'000);

Engine make_engine(const Setting& setting) {
  return Engine({.workers = setting.workers, .cpu_policy = setting.policy, .hot_reads = setting.hot_reads});
}

}  // namespace

TEST_CASE("T1: a random graph of 100,000 tasks gives what a serial loop gives, under every policy") {
  for (const Setting& setting : k_settings) {
    for (std::uint32_t cells : {8u, 64u, 1000u}) {
      DYNAMIC_SECTION(
          to_string(setting.policy) << " with " << setting.workers << " workers on " << cells << " Vars, hot after "
                                    << setting.hot_reads) {
        Engine engine = make_engine(setting);
        const Program program = random_program(17 + cells, k_steps, cells, 1);
        const Outcome outcome = run_on_cpu(engine, program, false);
        check_serial(program, outcome);
        check_serialisable(program, outcome);
      }
    }
  }
}

TEST_CASE("T1: a random graph pushed as a whole before its first task starts gives what a serial loop gives") {
  for (int workers : {1, 2, 8}) {
    DYNAMIC_SECTION(workers << " workers") {
      Engine engine({.workers = workers});
      const Program program = random_program(101, k_steps, 64, 1);
      check_serial(program, run_on_cpu(engine, program, true));
    }
  }
}

TEST_CASE("T2, T3: a random graph of 100,000 tasks from 8 pushing threads is serialisable, under every policy") {
  for (const Setting& setting : k_settings) {
    for (std::uint32_t cells : {8u, 200u}) {
      DYNAMIC_SECTION(
          to_string(setting.policy) << " with " << setting.workers << " workers on " << cells << " Vars, hot after "
                                    << setting.hot_reads) {
        Engine engine = make_engine(setting);
        const Program program = random_program(23 + cells, k_steps, cells, 8);
        check_serialisable(program, run_on_cpu(engine, program, false));
      }
    }
  }
}

TEST_CASE("T2, T3: a backlog from 8 pushing threads is serialisable") {
  Engine engine({.workers = 2});
  const Program program = random_program(5, k_steps, 48, 8);
  check_serialisable(program, run_on_cpu(engine, program, true));
}

TEST_CASE("T2, T3: a random graph with commuting tasks is serialisable in some order of theirs, under every policy") {
  for (const Setting& setting : k_settings) {
    for (int pushers : {1, 4}) {
      for (std::uint32_t cells : {6u, 40u}) {
        DYNAMIC_SECTION(
            to_string(setting.policy) << " with " << setting.workers << " workers, " << pushers << " pushers on "
                                      << cells << " Vars, hot after " << setting.hot_reads) {
          Engine engine = make_engine(setting);
          const Program program = commuting_program(31 + cells, k_steps / 2, cells, pushers);
          check_serialisable(program, run_on_cpu(engine, program, false));
        }
      }
    }
  }
}

TEST_CASE("T2, T3: a backlog of commuting tasks runs in another order than it was pushed in, and a serialisable one") {
  Engine engine({.workers = 2});
  for (const int pushers : {1, 8}) {
    const Program program = commuting_program(9, k_steps, 48, pushers);
    const Outcome outcome = run_on_cpu(engine, program, true);
    check_serialisable(program, outcome);
    if (pushers == 1)
      CHECK(differs_from_serial(program, outcome.history) != "");
  }
}

TEST_CASE("T37: the oracle notices when the engine drops a dependency edge") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("a dropped edge is a data race by design");
  for (int pushers : {1, 8}) {
    for (int every : {10, 1000}) {
      DYNAMIC_SECTION("every edge number " << every << ", " << pushers << " pushers") {
        const Program program = random_program(42, k_steps, 64, pushers);
        Engine engine({.workers = 2});
        PlantedFault fault(every);
        const History history = run_on_cpu(engine, program, true).history;
        if (pushers == 1)
          CHECK(differs_from_serial(program, history) != "");
        CHECK(not_serialisable(program, history) != "");
      }
    }
  }
}

TEST_CASE("The judge of histories refuses made-up ones") {
  Program program{.cells = 1, .pushers = 1, .steps = std::vector<Step>(3)};
  for (Step& step : program.steps)
    step.count = 1;
  program.steps[0].touch[0] = Touch::write;
  program.steps[1].touch[0] = Touch::read;
  program.steps[2].touch[0] = Touch::write;
  History good(program);
  for (std::size_t i = 0; i < 3; ++i)
    run_step(program.steps[i], i, good.cells.data(), good.seen[i]);
  REQUIRE(differs_from_serial(program, good) == "");
  REQUIRE(not_serialisable(program, good) == "");

  SECTION("two writers at once") {
    good.seen[2].writers[0] = 0;
    CHECK_THAT(not_serialisable(program, good), contains("at the same time"));
  }
  SECTION("a reader that overtook the writer pushed before it") {
    good.seen[1].writers[0] = 0;
    CHECK_THAT(not_serialisable(program, good), contains("overtook"));
  }
  SECTION("a lost update") {
    good.cells[0].value ^= 1;
    CHECK_THAT(not_serialisable(program, good), contains("another value"));
  }
  SECTION("a reader that saw a half-written value") {
    good.seen[1].digest ^= 1;
    CHECK_THAT(not_serialisable(program, good), contains("other values"));
  }
  SECTION("commuting tasks in another order than that of their pushes, which is none to refuse") {
    for (Step& step : program.steps)
      step.touch[0] = Touch::commute;
    History turned(program);
    for (std::size_t i : {2, 0, 1})
      run_step(program.steps[i], i, turned.cells.data(), turned.seen[i]);
    CHECK(not_serialisable(program, turned) == "");
    program.steps[1].repeat = false;
    program.steps[1].touch[0] = Touch::write;
    CHECK_THAT(not_serialisable(program, turned), contains("overtook"));
    program.steps[1].touch[0] = Touch::commute;
    program.steps[0].repeat = true;
    CHECK_THAT(not_serialisable(program, turned), contains("overtook"));
  }
  SECTION("cells that disagree about the order of two pushers' tasks") {
    Program crossed = random_program(1, 2, 2, 2);
    for (Step& step : crossed.steps)
      step = {.cell = {0, 1}, .touch = {Touch::write, Touch::write}, .count = 2};
    History history(crossed);
    history.cells[0].writers = history.cells[1].writers = 2;
    history.seen[0].writers[1] = history.seen[1].writers[0] = 1;
    CHECK_THAT(not_serialisable(crossed, history), contains("disagree"));
  }
}
