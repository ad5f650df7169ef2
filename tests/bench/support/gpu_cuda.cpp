#include "tests/bench/support/gpu_cuda.h"

#include <cstdio>

namespace sluice::bench {

GpuBench::GpuBench(Report& report, bool launches) : report_(report) {
  if (!launches)
    return;
  report.flag("--launch", launch_, "How the engine launches GPU tasks: direct, batch or both")
      .one_of({"direct", "batch", "both"})
      .with_default();
}

bool GpuBench::begin() {
  const bool named = report_.given("--device");
  if (named && report_.options().device.is_cpu()) {
    std::fprintf(stderr, "--device cpu: this benchmark measures a GPU\n");
    exit_code_ = 2;
  } else if (num_gpus() == 0) {
    std::fprintf(stderr, "skipped: this benchmark measures a GPU, and there is none\n");
    exit_code_ = 77;
  } else {
    device_ = named ? report_.options().device : gpu(0);
    check(cudaSetDevice(device_.index), "cudaSetDevice");
    return true;
  }
  return false;
}

}  // namespace sluice::bench
