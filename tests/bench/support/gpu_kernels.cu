#include <algorithm>

#include <cuda_runtime.h>

#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/patterns.h"

namespace sluice::bench {

namespace {

__device__ void do_step(const KernelStep& step, std::uint64_t* items) {
  std::uint64_t value = items[step.target] + 1;
  for (int i = 0; i < step.count; ++i)
    value = mixed(value, items[step.sources[i]]);
  items[step.target] = mixed(value, value);
}

__device__ void hold_for(unsigned microseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < 1000ull * microseconds);
}

__global__ void step_kernel(KernelStep step, std::uint64_t* items) {
  if (threadIdx.x == 0)
    do_step(step, items);
}

__global__ void long_step_kernel(KernelStep step, std::uint64_t* items, unsigned microseconds) {
  if (threadIdx.x != 0)
    return;
  hold_for(microseconds);
  do_step(step, items);
}

__global__ void swap_kernel(double* x, double* y, int n) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 64) {
    const double kept = x[i];
    x[i] = y[i];
    y[i] = kept;
  }
}

__global__ void publish_kernel(std::uint64_t* word, std::uint64_t value) {
  *static_cast<volatile std::uint64_t*>(word) = value;
}

__global__ void increment_kernel(float* word) {
  *word += 1;
}

__global__ void read_out_kernel(float* to, const float* from, std::uint64_t* flag, std::uint64_t value) {
  *static_cast<volatile float*>(to) = *from;
  __threadfence_system();
  *static_cast<volatile std::uint64_t*>(flag) = value;
}

__global__ void spin_kernel(unsigned microseconds) {
  hold_for(microseconds);
}

// A block makes a tile of 16 x 32: small enough that one product leaves most of the GPU to others.
__global__ void dense_kernel(float* out, const float* x, const float* w, int n) {
  __shared__ float x_tile[16][32], w_tile[32][32];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y) * 16 + static_cast<int>(threadIdx.y);
  float first = 0, second = 0;  // rows `row` and `row + 8`
  for (int k = 0; k < n; k += 32) {
    for (int i = static_cast<int>(threadIdx.y); i < 16; i += 8)
      x_tile[i][threadIdx.x] = x[(blockIdx.y * 16 + i) * n + k + threadIdx.x];
    for (int i = static_cast<int>(threadIdx.y); i < 32; i += 8)
      w_tile[i][threadIdx.x] = w[(k + i) * n + column];
    __syncthreads();
    for (int i = 0; i < 32; ++i) {
      first += x_tile[threadIdx.y][i] * w_tile[i][threadIdx.x];
      second += x_tile[threadIdx.y + 8][i] * w_tile[i][threadIdx.x];
    }
    __syncthreads();
  }
  out[row * n + column] = first;
  out[(row + 8) * n + column] = second;
}

__global__ void relu_kernel(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    x[i] = fmaxf(x[i], 0.0F);
}

template <class F>
__global__ void map_kernel(float4* y, const float4* x, std::int64_t n, F f) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const float4 v = x[i];
    y[i] = make_float4(f(v.x), f(v.y), f(v.z), f(v.w));
  }
}

struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Shift {
  float summand;
  __device__ float operator()(float x) const { return x + summand; }
};

__global__ void fill_symmetric_kernel(double* matrix, int n) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int column = static_cast<int>(blockIdx.y);
  if (row < n)
    matrix[static_cast<std::int64_t>(column) * n + row] = 1.0 / (1.0 + abs(row - column)) + (row == column ? 1.0 : 0.0);
}

cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

template <class F>
void launch_map(void* stream, float* y, const float* x, std::int64_t n, F f) {
  const std::int64_t vectors = n / 4;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((vectors + 255) / 256, 132 * 16));
  map_kernel<<<blocks, 256, 0, native(stream)>>>(
      reinterpret_cast<float4*>(y), reinterpret_cast<const float4*>(x), vectors, f);
}

}  // namespace

void launch_step(void* stream, const KernelStep& step, std::uint64_t* items) {
  step_kernel<<<1, 32, 0, native(stream)>>>(step, items);
}

void launch_long_step(void* stream, const KernelStep& step, std::uint64_t* items, unsigned microseconds) {
  long_step_kernel<<<1, 32, 0, native(stream)>>>(step, items, microseconds);
}

void launch_swap(void* stream, double* x, double* y, int n) {
  swap_kernel<<<4, 16, 0, native(stream)>>>(x, y, n);
}

void launch_publish(void* stream, std::uint64_t* word, std::uint64_t value) {
  publish_kernel<<<1, 1, 0, native(stream)>>>(word, value);
}

void launch_increment(void* stream, float* word) {
  increment_kernel<<<1, 1, 0, native(stream)>>>(word);
}

void launch_read_out(void* stream, float* to, const float* from, std::uint64_t* flag, std::uint64_t value) {
  read_out_kernel<<<1, 1, 0, native(stream)>>>(to, from, flag, value);
}

void launch_spin(void* stream, int blocks, unsigned microseconds) {
  spin_kernel<<<static_cast<unsigned>(blocks), 1024, 0, native(stream)>>>(microseconds);
}

void launch_dense(void* stream, float* out, const float* x, const float* w, int rows, int n) {
  const dim3 blocks(static_cast<unsigned>(n / 32), static_cast<unsigned>(rows / 16));
  dense_kernel<<<blocks, dim3(32, 8), 0, native(stream)>>>(out, x, w, n);
}

void launch_relu(void* stream, float* x, int n) {
  relu_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, native(stream)>>>(x, n);
}

void launch_scale(void* stream, float* y, const float* x, float factor, std::int64_t n) {
  launch_map(stream, y, x, n, Scale{factor});
}

void launch_shift(void* stream, float* y, const float* x, float summand, std::int64_t n) {
  launch_map(stream, y, x, n, Shift{summand});
}

void launch_fill_symmetric(void* stream, double* matrix, int n) {
  const dim3 blocks(static_cast<unsigned>((n + 255) / 256), static_cast<unsigned>(n));
  fill_symmetric_kernel<<<blocks, 256, 0, native(stream)>>>(matrix, n);
}

}  // namespace sluice::bench
