// The kernels of rtc_sources.h, as functions that the simulated GPU runs.
#include "tests/operator/rtc_sources.h"
#include "tests/support/device_sim/rtc.h"

namespace {

void add(const float* x, const float* y, float* z, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    z[i] = x[i] + y[i];
}

void scale(double* x, double by, long long n) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    x[i] *= by;
}

void mark(unsigned char* x, bool on, signed char by) {
  const unsigned width = gridDim.x * blockDim.x;
  const unsigned at = (blockIdx.y * blockDim.y + threadIdx.y) * width + blockIdx.x * blockDim.x + threadIdx.x;
  x[at] = on ? static_cast<unsigned char>(at + by) : 0;
}

[[maybe_unused]] const bool known = [] {
  auto& all = device_sim::rtc_kernels();
  all.push_back(device_sim::rtc_kernel<add>("add"));
  all.push_back(device_sim::rtc_kernel<scale>("scale"));
  all.push_back(device_sim::rtc_kernel<mark>("mark"));
  return true;
}();

}  // namespace
