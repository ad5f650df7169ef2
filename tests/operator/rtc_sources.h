#pragma once

// Sources of kernels for tests of rtc::CudaModule. The simulated GPU runs what test_rtc_sim.cpp has under these names.
namespace sluice::test {

inline constexpr const char* k_rtc_source = R"(
extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    z[i] = x[i] + y[i];
}
extern "C" __global__ void scale(double* x, double by, long long n) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    x[i] *= by;
}
extern "C" __global__ void mark(unsigned char* x, bool on, signed char by) {
  const unsigned width = gridDim.x * blockDim.x;
  const unsigned at = (blockIdx.y * blockDim.y + threadIdx.y) * width + blockIdx.x * blockDim.x + threadIdx.x;
  x[at] = on ? (unsigned char)(at + by) : 0;
}
)";

}  // namespace sluice::test
