#pragma once

// Random graphs of tasks whose GPU half runs on the simulated CUDA runtime.
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/dag.h"
#include "tests/engine/sim_case.h"

namespace sluice::test {

/// Enqueues a "kernel" in a GPU body. Throws CudaError if CUDA refuses it.
template <class Body>
void sim_launch(const Queue& queue, Body body) {
  const cudaError_t status = sim::launch(static_cast<cudaStream_t>(queue.stream()), std::move(body));
  if (status == cudaSuccess)
    return;
  cudaGetLastError();
  throw CudaError("a test's launch failed", static_cast<int>(status));
}

/// Which steps of a program run where.
enum class Where : std::uint8_t { gpu, two_gpus, cpu_and_gpu, everywhere };

struct SimRun {
  Where where = Where::gpu;
  EngineOptions options = {.workers = 2};
  bool capturable = false;
};

/// Where step `i` runs: drawn from its number, so that every run agrees.
inline Device device_of(Where where, std::size_t i) {
  const std::uint64_t die = mix(i * 31 + 7);
  if (where == Where::cpu_and_gpu || where == Where::everywhere) {
    if (die % 3 == 0)
      return cpu();
  }
  const bool two = where == Where::two_gpus || where == Where::everywhere;
  return gpu(two ? static_cast<int>((die >> 8) % 2) : 0);
}

/// Runs `program` on an engine over the simulated runtime.
inline History run_on_sim(const Program& program, const SimRun& run) {
  // Shared: should the engine fail to wait, kernels outlive it.
  const auto history = std::make_shared<History>(program);
  Engine engine(run.options);
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  from_pushers(program, [&](std::size_t i) {
    const Step& step = program.steps[i];
    const Device device = device_of(run.where, i);
    Task task{.name = "step", .device = device, .access = access_of(step, vars)};
    if (device.is_cpu()) {
      engine.push(task, [history, step, i] { run_step(step, i, history->cells.data(), history->seen[i]); });
      return;
    }
    const std::uint64_t die = mix(i) % 16;
    task.stream = die == 0   ? StreamKind::copy_in
                  : die == 1 ? StreamKind::copy_out
                  : die == 2 ? StreamKind::collective
                  : die == 3 ? StreamKind::copy_peer
                             : StreamKind::compute;
    task.capturable = run.capturable;
    engine.push(task, [history, step, i](Queue queue) {
      sim_launch(queue, [history, step, i] { run_step(step, i, history->cells.data(), history->seen[i]); });
    });
  });
  engine.wait_all();
  return *history;
}

/// "" if `history` is what the program may leave behind.
inline std::string judge(const Program& program, const History& history) {
  return program.pushers == 1 ? differs_from_serial(program, history) : not_serialisable(program, history);
}

/// Of ten programs, each run as `run_of(seed)` says, in how many the oracle sees that waits for events do nothing.
template <class RunOf>
int noticed_without_waits(RunOf run_of) {
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Program program = random_program(seed, 400, 12, 1);
    Sim sim(seeded(seed));
    sim::ignore_event_waits(true);
    noticed += judge(program, run_on_sim(program, run_of(seed))) != "" ? 1 : 0;
  }
  return noticed;
}

}  // namespace sluice::test
