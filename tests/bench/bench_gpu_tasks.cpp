// What a GPU task costs: host time of a push and wall time of a task, beside the same kernels launched by hand in the
// same run. Results are compared with a serial run.
#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"

int main(int argc, char** argv) {
  using namespace sluice;
  bench::Report report("bench_gpu_tasks", "Cost of a GPU task: tiny kernels, empty tasks, small reads, urgent work");
  bench::GpuBench gpu_bench(report);
  gpu_tasks::Settings settings;
  const auto option = [&](const char* name, int& value, const char* about) {
    report.flag(name, value, about).range(2, 10000000).with_default();
  };
  option("--tasks", settings.tasks, "Tasks in a graph of kernels, about");
  option("--width", settings.width, "Width of the graphs of empty tasks");
  option("--steps", settings.steps, "Steps of these");
  option("--turns", settings.turns, "Times that these are pushed before a wait");
  option("--samples", settings.samples, "Single readings of a latency");
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (!gpu_bench.begin())
    return gpu_bench.exit_code();
  if (report.options().smoke) {
    settings.tasks = 330;
    settings.samples = 5;
    settings.peer_bytes = 1 << 20;
  }
  try {
    gpu_tasks::kernels(report, gpu_bench, settings);
    gpu_tasks::empty_tasks(report, gpu_bench, settings);
    gpu_tasks::kernel_chain(report, gpu_bench, settings);
    gpu_tasks::scalar_read(report, gpu_bench, settings);
    gpu_tasks::urgent(report, gpu_bench, settings);
    gpu_tasks::two_gpus(report, gpu_bench, settings);
    gpu_tasks::peer_copy(report, gpu_bench, settings);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
