#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/gpu_cuda.h"
#include "tests/bench/support/gpu_kernels.h"

// The parts of bench_launch_rules: for each rule of engine/cuda/launch_rules.h the smallest program that it is there
// for. tests/bench/ablate runs them with the rule and without.
namespace launch_rules {

/// How a task of Items is launched.
struct Kind {
  sluice::TaskName name = "step";
  unsigned microseconds = 0;  // that its kernel takes beyond a tiny one's
  bool capturable = true;
  bool spoils = false;  // its body makes a call that ends a capture
};

/// Numbers on a GPU with a Var each, and what they must be after everything that was pushed. For one thread.
class Items {
 public:
  Items(sluice::Engine& engine, sluice::Device device, int count);

  /// Pushes a task whose kernel does `step`.
  void push(const sluice::bench::KernelStep& step, const Kind& kind = {});
  /// The same for the next step of a chain on the first number.
  void push_next(const Kind& kind = {}) { push({}, kind); }
  const sluice::Var& var(int i) const { return vars_[static_cast<std::size_t>(i)]; }
  /// Waits for all that was pushed.
  void check(sluice::bench::Report& report, const std::string& what);

 private:
  sluice::Engine& engine_;
  sluice::Device device_;
  sluice::bench::GpuArray<std::uint64_t> there_;
  std::vector<std::uint64_t> expected_;
  std::vector<sluice::Var> vars_;
};

/// Names that differ, of texts that last.
const std::vector<sluice::TaskName>& names();

/// `full`, or `tiny` in a smoke run.
inline int sized(const sluice::bench::Report& report, int full, int tiny) {
  return report.options().smoke ? tiny : full;
}

/// start: bursts of kernels, each of which the host waits for.
void bursts(sluice::bench::Report& report, sluice::Device device);
/// stale: ten kernels, then nothing; the host looks at memory that the last one writes.
void forgotten(sluice::bench::Report& report, sluice::Device device);
/// cut: loops of tasks that are no multiple of a batch, begun and after many turns.
void loops(sluice::bench::Report& report, sluice::Device device);
/// No batch is like one before it.
void always_new(sluice::bench::Report& report, sluice::Device device);
/// names: one task of sixteen ends the capture that it is part of.
void spoilers(sluice::bench::Report& report, sluice::Device device);
/// backlog: pushed faster than the GPU runs.
void backlogs(sluice::bench::Report& report, sluice::Device device);
/// turn: one thread pushes without end, another a little now and then.
void neighbours(sluice::bench::Report& report, sluice::Device device);

}  // namespace launch_rules
