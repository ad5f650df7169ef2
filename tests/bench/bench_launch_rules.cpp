// For each rule by which the engine adapts its launches (engine/cuda/launch_rules.h), the smallest program that the
// rule is there for. Alone these figures mean little: tests/bench/ablate compares them with the rule left out. The
// rules width, narrow, events and instances show in bench_branches and bench_gpu_tasks.
#include "tests/bench/launch_rules/launch_rules_cuda.h"

int main(int argc, char** argv) {
  using namespace sluice;
  bench::Report report("bench_launch_rules", "What the rules of launching GPU tasks are there for, one program each");
  bench::GpuBench gpu_bench(report, false);
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (!gpu_bench.begin())
    return gpu_bench.exit_code();
  try {
    for (auto* part :
         {launch_rules::bursts,
          launch_rules::forgotten,
          launch_rules::loops,
          launch_rules::always_new,
          launch_rules::spoilers,
          launch_rules::backlogs,
          launch_rules::neighbours})
      part(report, gpu_bench.device());
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
