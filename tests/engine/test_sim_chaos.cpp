// With a chaos policy GPU tasks are issued late, in any order and on any stream: on the simulated CUDA runtime.
#include <set>
#include <vector>

#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

EngineOptions chaotic(std::uint64_t seed, CpuMode policy = CpuMode::chaos) {
  return {.workers = policy == CpuMode::chaos ? 0 : 2, .cpu_policy = policy, .chaos_seed = seed};
}

/// The order in which the bodies of independent tasks are called, and the streams that they get.
struct Schedule {
  std::vector<int> order;
  std::set<void*> streams;
};

Schedule schedule_of(const EngineOptions& options) {
  Sim sim;
  Schedule schedule;
  Engine engine(options);
  std::vector<Var> vars;
  for (int i = 0; i < 64; ++i)
    vars.push_back(engine.new_var());
  for (int i = 0; i < 64; ++i) {
    const Task task{.name = "step", .device = gpu(0), .access = {write(vars[static_cast<std::size_t>(i)])}};
    engine.push(task, [&schedule, i](Queue queue) {
      schedule.order.push_back(i);
      schedule.streams.insert(queue.stream());
      sim_launch(queue, [] {});
    });
  }
  engine.wait_all();
  return schedule;
}

}  // namespace

TEST_CASE("T10: chaos issues GPU tasks in another order than they were pushed, on all streams", "[sim]") {
  std::vector<int> pushed;
  for (int i = 0; i < 64; ++i)
    pushed.push_back(i);
  CHECK(schedule_of({.workers = 1}).order == pushed);
  int reordered = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Schedule schedule = schedule_of(chaotic(seed));
    CHECK(std::set<int>(schedule.order.begin(), schedule.order.end()).size() == 64);
    CHECK(schedule.streams.size() == 4);
    reordered += schedule.order != pushed ? 1 : 0;
  }
  CHECK(reordered == 10);
}

TEST_CASE("T10, T52: under chaos random graphs over GPUs and the CPU give what a serial loop gives", "[sim]") {
  for (const CpuMode policy : {CpuMode::chaos, CpuMode::chaos_pool}) {
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(scaled(10)); ++seed) {
      CAPTURE(seed, to_string(policy));
      const Program program = random_program(seed, 400, seed % 2 == 0 ? 12 : 40, seed % 3 == 0 ? 3 : 1);
      const Where places[] = {Where::gpu, Where::two_gpus, Where::everywhere};
      Sim sim(seeded(seed));
      const SimRun run{.where = places[seed % 3], .options = chaotic(seed, policy), .capturable = seed % 4 != 0};
      REQUIRE(judge(program, run_on_sim(program, run)) == "");
    }
  }
}

// Under ThreadSanitizer the graph would be reported as the race that it is.
TEST_CASE("T37: under chaos the oracle notices streams that do not wait", "[sim]") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("it races on purpose");
  CHECK(noticed_without_waits([](std::uint64_t seed) {
          return SimRun{.options = chaotic(seed), .capturable = true};
        }) >= 8);
}
