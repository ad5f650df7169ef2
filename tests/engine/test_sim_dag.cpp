// The random-graph oracle on simulated streams that run whatever CUDA would let them run.
#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void check_graphs(std::uint64_t first_seed, int seeds, std::size_t steps, int pushers, const SimRun& run) {
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(scaled(seeds)); ++seed) {
    CAPTURE(seed, pushers);
    const std::uint32_t cells[] = {3, 12, 60};
    const Program program = random_program(seed, steps, cells[seed % 3], pushers);
    Sim sim(seeded(seed));
    const History history = run_on_sim(program, run);
    REQUIRE(judge(program, history) == "");
  }
}

// One that no serial loop need agree with. Returns how many did not.
int check_commuting(std::uint64_t first_seed, int seeds, int pushers, const SimRun& run) {
  int others = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(scaled(seeds)); ++seed) {
    CAPTURE(seed, pushers);
    const Program program = commuting_program(seed, 400, seed % 2 == 0 ? 5 : 40, pushers);
    Sim sim(seeded(seed));
    const History history = run_on_sim(program, run);
    REQUIRE(not_serialisable(program, history) == "");
    others += differs_from_serial(program, history) != "" ? 1 : 0;
  }
  return others;
}

}  // namespace

TEST_CASE("T36: random graphs of GPU tasks give what a serial loop gives, on many seeds", "[sim]") {
  check_graphs(1, 40, 400, 1, {});
}

TEST_CASE("T36: random graphs of GPU tasks from several threads are serialisable", "[sim]") {
  check_graphs(100, 20, 600, 4, {});
}

TEST_CASE("T36, T43: random graphs over CPU and GPU are serialisable", "[sim]") {
  check_graphs(200, 20, 400, 1, {.where = Where::cpu_and_gpu});
  check_graphs(250, 20, 600, 3, {.where = Where::cpu_and_gpu});
}

TEST_CASE("T57: random graphs over two GPUs, and over those and the CPU, are serialisable", "[sim]") {
  check_graphs(300, 20, 400, 1, {.where = Where::two_gpus});
  check_graphs(350, 20, 600, 3, {.where = Where::everywhere});
}

TEST_CASE("T1: the serial policies give what a serial loop gives on simulated streams", "[sim]") {
  check_graphs(400, 4, 300, 1, {.where = Where::everywhere, .options = {.workers = 2, .gpu_policy = GpuMode::serial}});
  check_graphs(450, 4, 300, 1, {.where = Where::everywhere, .options = {.cpu_policy = CpuMode::serial}});
  check_graphs(
      480, 4, 300, 1, {.where = Where::everywhere, .options = {.cpu_policy = CpuMode::chaos, .chaos_seed = 5}});
}

TEST_CASE("T36: random graphs with GPU tasks that commute are serialisable", "[sim]") {
  check_commuting(500, 10, 1, {});
  check_commuting(520, 10, 3, {.where = Where::everywhere});
  check_commuting(540, 6, 2, {.where = Where::everywhere, .options = {.workers = 2}, .capturable = true});
  check_commuting(
      560, 4, 1, {.where = Where::everywhere, .options = {.cpu_policy = CpuMode::chaos_pool, .chaos_seed = 3}});
  CHECK(check_commuting(580, 10, 1, {.where = Where::cpu_and_gpu}) > 0);
}

// Under ThreadSanitizer the graph would be reported as the race that it is.
TEST_CASE("T37: the oracle notices when waits for events do nothing", "[sim]") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("it races on purpose");
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Program program = random_program(seed, 400, 12, 1);
    Sim sim(seeded(seed));
    sim::ignore_event_waits(true);
    noticed += judge(program, run_on_sim(program, {})) != "";
  }
  CAPTURE(noticed);
  CHECK(noticed >= 8);
}
