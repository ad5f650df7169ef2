// The programs of samples/stress with simulated GPUs: kernels, copies, batches, regions, foreign streams, coroutines,
// forks, nested waits, errors and cancels in one random program, compared with a serial run.
#include <optional>

#include "samples/stress/judge.h"
#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

namespace samples::stress {

void enqueue_work(void* stream, const Work& work) {
  const cudaError_t status = sluice::test::sim::launch(static_cast<cudaStream_t>(stream), [work] { run_work(work); });
  if (status != cudaSuccess)
    throw sluice::CudaError("stress: a launch failed", static_cast<int>(status));
}

}  // namespace samples::stress

using namespace sluice;
using namespace sluice::test;
namespace stress = samples::stress;

namespace {

struct Setting {
  int gpus = 2;
  int threads = 3;
  int steps = 40;
  CpuMode policy = CpuMode::pool;
  std::optional<LaunchMode> launch = {};
  stress::Plant plant = stress::Plant::none;
};

/// One program; "" if all went as in a serial run.
std::string run_program(std::uint64_t seed, const Setting& setting, stress::Tally& all) {
  const stress::Plan plan = stress::make_plan(stress::suited_to(
      setting.policy, {.seed = seed, .threads = setting.threads, .steps = setting.steps, .gpus = setting.gpus}));
  std::optional<Engine> engine;
  engine.emplace(
      EngineOptions{.workers = 2, .cpu_policy = setting.policy, .launch = setting.launch, .chaos_seed = seed});
  stress::Run run(plan, *engine, setting.plant);
  run.execute();
  if (seed % 2 == 0)
    engine.reset();
  std::string fault = run.fault();
  stress::Tally tally;
  if (fault.empty())
    fault = judge_outcomes(run, tally);
  all.add(tally);
  return fault.empty() ? judge_values(run) : fault;
}

void check_programs(std::uint64_t first, int seeds, const Setting& setting) {
  stress::Tally tally;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(scaled(seeds)); ++seed) {
    CAPTURE(seed, to_string(setting.policy));
    Sim sim(seeded(seed));
    REQUIRE(run_program(seed, setting, tally) == "");
  }
  if (seeds >= 20 && !k_thread_sanitizer)
    CHECK((tally.failed > 0 && tally.skipped > tally.cancelled && tally.cancelled > 0 && tally.waits > 0));
}

}  // namespace

TEST_CASE("stress: random programs over two GPUs and the CPU end as in a serial run", "[sim][stress]") {
  check_programs(1, 60, {});
}

TEST_CASE("stress: so do those of one GPU, of none, and without batches", "[sim][stress]") {
  check_programs(1000, 20, {.gpus = 1});
  check_programs(2000, 20, {.gpus = 0});
  check_programs(3000, 20, {.launch = LaunchMode::direct});
}

TEST_CASE("stress: so do those under the other CPU policies", "[sim][stress]") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::chaos, CpuMode::chaos_pool})
    check_programs(4000, 10, {.policy = policy});
}

TEST_CASE("stress: so do those of seventeen pushing threads", "[sim][stress]") {
  check_programs(5000, 6, {.gpus = 1, .threads = 17, .policy = CpuMode::chaos});
  check_programs(6000, 6, {.threads = 17});
}

// Under ThreadSanitizer it would be reported as the race that it is.
TEST_CASE("stress: the serial run notices waits for events that do nothing, and accesses left out", "[sim][stress]") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("it races on purpose");
  stress::Tally tally;
  int without_waits = 0, without_access = 0, without_errors = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    {
      Sim sim(seeded(seed));
      sim::ignore_event_waits(true);
      without_waits += run_program(seed, {}, tally) != "";
    }
    Sim sim(seeded(seed));
    without_access += run_program(seed, {.plant = stress::Plant::access}, tally) != "";
    without_errors += run_program(seed, {.plant = stress::Plant::error}, tally) != "";
  }
  CAPTURE(without_waits, without_access, without_errors);
  CHECK(without_waits >= 5);
  CHECK(without_access >= 5);
  CHECK(without_errors >= 5);
}
