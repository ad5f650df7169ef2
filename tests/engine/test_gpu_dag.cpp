// The random-graph oracle on CUDA streams: the same arithmetic in one-thread kernels, some of which dawdle.
#include <functional>

#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// One task in sixteen dawdles, so that a missing edge lets others overtake it.
unsigned delay_of(std::size_t task) {
  return mix(task) % 16 == 0 ? 20 : 0;
}

/// Most tasks may be part of a batch; now and then one may not.
bool is_capturable(std::size_t task) {
  return mix(task + 1) % 64 != 0;
}

std::vector<Var> make_vars(Engine& engine, const Program& program) {
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  return vars;
}

/// Where the cells are: in GPU memory, or in pinned memory that CPU tasks reach too.
struct GpuRun {
  explicit GpuRun(const Program& program) : program(program), cells(program.cells), seen(program.steps.size()) {}

  void push(Engine& engine, const std::vector<Var>& vars, std::size_t i) {
    const Task task{
        .name = "step", .device = gpu(0), .access = access_of(program.steps[i], vars), .capturable = is_capturable(i)};
    engine.push(task, [this, i](Queue queue) {
      enqueue_step(queue.stream(), program.steps[i], i, cells.data(), seen.data() + i, delay_of(i));
    });
  }
  /// As before the first step.
  void begin_again() const { copy_and_wait(cells.data(), std::vector<Cell>(program.cells).data(), cells_bytes()); }
  std::size_t cells_bytes() const noexcept { return program.cells * sizeof(Cell); }
  History history() const {
    History result(program);
    result.cells = cells.values();
    result.seen = seen.values();
    return result;
  }

  const Program& program;
  GpuArray<Cell> cells;
  GpuArray<Seen> seen;
};

History run_on_gpu(const EngineOptions& options, const Program& program) {
  GpuRun run(program);
  Engine engine(options);
  const std::vector<Var> vars = make_vars(engine, program);
  from_pushers(program, [&](std::size_t i) { run.push(engine, vars, i); });
  engine.wait_all();
  return run.history();
}

}  // namespace

// Short enough for compute-sanitizer; the others carry the tag [long].
TEST_CASE("T36: a random graph of 2,000 GPU tasks gives what a serial loop gives, under both GPU policies", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  const Program program = random_program(3, 2'000, 24, 1);
  for (const GpuMode policy : {GpuMode::stream, GpuMode::serial})
    CHECK(differs_from_serial(program, run_on_gpu({.workers = 2, .gpu_policy = policy}, program)) == "");
}

TEST_CASE("T36: a random graph launched directly and in batches gives the same", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  const Program program = random_program(4, 2'000, 24, 1);
  for (const LaunchMode launch : {LaunchMode::direct, LaunchMode::batch}) {
    CAPTURE(to_string(launch));
    CHECK(differs_from_serial(program, run_on_gpu({.workers = 2, .launch = launch}, program)) == "");
  }
}

TEST_CASE("T52: random graphs that come again give what a serial loop gives, each time, on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (const std::uint32_t cells : {4u, 24u}) {
    const Program programs[] = {random_program(cells, 1'000, cells, 1), random_program(cells + 1, 700, cells, 1)};
    GpuRun runs[] = {GpuRun(programs[0]), GpuRun(programs[1])};
    Engine engine({.workers = 2});
    const std::vector<Var> vars = make_vars(engine, programs[0]);
    for (int round = 0; round < 20; ++round) {
      CAPTURE(cells, round);
      const std::size_t which = round % 5 == 4 ? 1 : 0;
      runs[which].begin_again();
      for (std::size_t i = 0; i < programs[which].steps.size(); ++i)
        runs[which].push(engine, vars, i);
      engine.wait_all();
      CHECK(differs_from_serial(programs[which], runs[which].history()) == "");
    }
    CHECK(engine.counters().batched > 0);
  }
}

TEST_CASE(
    "T1, T36: a random graph of 100,000 GPU tasks on many streams gives what a serial loop gives", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (std::uint32_t cells : {8u, 64u, 1000u}) {
    const Program program = random_program(7 + cells, 100'000, cells, 1);
    CHECK(differs_from_serial(program, run_on_gpu({.workers = 2}, program)) == "");
  }
}

TEST_CASE("T1: the serial policies of CPU and GPU give what a serial loop gives", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  const Program program = random_program(77, 10'000, 64, 1);
  CHECK(differs_from_serial(program, run_on_gpu({.workers = 2, .gpu_policy = GpuMode::serial}, program)) == "");
  CHECK(differs_from_serial(program, run_on_gpu({.cpu_policy = CpuMode::serial}, program)) == "");
}

TEST_CASE("T2, T36: a random graph of 100,000 GPU tasks from 8 pushing threads is serialisable", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  for (std::uint32_t cells : {8u, 200u}) {
    const Program program = random_program(8 + cells, 100'000, cells, 8);
    CHECK(not_serialisable(program, run_on_gpu({.workers = 2}, program)) == "");
  }
}

namespace {

/// Over memory that all devices see: device_of(i) runs task i.
History run_on_all(const Program& program, const std::function<Device(std::size_t)>& device_of) {
  PinnedArray<Cell> cells(program.cells);
  PinnedArray<Seen> seen(program.steps.size());
  {
    Engine engine({.workers = 4});
    const std::vector<Var> vars = make_vars(engine, program);
    from_pushers(program, [&](std::size_t i) {
      const Step& step = program.steps[i];
      const Device device = device_of(i);
      const Task task{
          .name = "step", .device = device, .access = access_of(step, vars), .capturable = is_capturable(i)};
      engine.push(task, [&step, &seen, &cells, device, i](Queue queue) {
        if (device.is_cpu())
          run_step(step, i, cells.data(), seen[i]);
        else
          enqueue_step(queue.stream(), step, i, cells.data(), &seen[i], 0);
      });
    });
    engine.wait_all();
  }
  History history(program);
  history.cells.assign(cells.data(), cells.data() + program.cells);
  history.seen.assign(seen.data(), seen.data() + program.steps.size());
  return history;
}

void check_on_all(std::uint64_t seed, std::size_t steps, const std::function<Device(std::size_t)>& device_of) {
  for (int pushers : {1, 8}) {
    const Program program = random_program(seed, steps, 32, pushers);
    const History history = run_on_all(program, device_of);
    if (pushers == 1)
      CHECK(differs_from_serial(program, history) == "");
    CHECK(not_serialisable(program, history) == "");
  }
}

}  // namespace

TEST_CASE("T1, T2: a random graph of tasks on CPU and GPU, over memory that both see, is serialisable", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  check_on_all(99, 20'000, [](std::size_t i) { return mix(i) % 3 == 0 ? cpu() : gpu(0); });
}

TEST_CASE("T57: a random graph of tasks on two GPUs and the CPU is serialisable", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(2);
  prepare_gpus();
  check_on_all(57, 20'000, [](std::size_t i) {
    const std::size_t on = mix(i) % 5;
    return on == 0 ? cpu() : gpu(static_cast<int>(on % 2));
  });
}

TEST_CASE("T37: the oracle notices when the engine drops an edge between GPU tasks", "[gpu][long]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  const Program program = random_program(42, 20'000, 64, 1);
  GpuRun run(program);
  {
    Engine engine({.workers = 2});
    const std::vector<Var> vars = make_vars(engine, program);
    AccessList all;
    for (const Var& var : vars)
      all.push_back(write(var));
    Gate gate;
    OpensAtEnd opens(gate);
    engine.push({.name = "gate", .access = all}, [gate] { gate.wait(); });
    detail::test_faults().drop_every_nth_edge = 50;
    for (std::size_t i = 0; i < program.steps.size(); ++i)
      run.push(engine, vars, i);
    detail::test_faults().drop_every_nth_edge = 0;
    gate.open();
    engine.wait_all();
  }
  CHECK(differs_from_serial(program, run.history()) != "");
}
