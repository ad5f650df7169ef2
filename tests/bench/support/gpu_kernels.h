#pragma once

#include <cstdint>

// Kernels of the benchmarks. `stream` is a cudaStream_t, so that what the engine is given and what is launched by hand
// are one and the same call.
namespace sluice::bench {

/// A step of a pattern (patterns.h), as a kernel takes it.
struct KernelStep {
  int target = 0;
  int count = 0;
  int sources[3] = {};
};

/// run_step() of patterns.h on items in a GPU's memory, by one warp.
void launch_step(void* stream, const KernelStep& step, std::uint64_t* items);
/// The same, after so long.
void launch_long_step(void* stream, const KernelStep& step, std::uint64_t* items, unsigned microseconds);
/// Exchanges n doubles, in 4 blocks of 16 threads.
void launch_swap(void* stream, double* x, double* y, int n);
/// Writes `value` to mapped host memory, seen by a spinning host.
void launch_publish(void* stream, std::uint64_t* word, std::uint64_t value);
/// word += 1.
void launch_increment(void* stream, float* word);
/// Copies one float into mapped host memory, then sets `flag` to `value`.
void launch_read_out(void* stream, float* to, const float* from, std::uint64_t* flag, std::uint64_t value);
/// `blocks` blocks of 1024 threads, each of which holds its place for so long.
void launch_spin(void* stream, int blocks, unsigned microseconds);

/// out(rows, n) = x(rows, n) * w(n, n), row-major float32; n is a multiple of 32, rows of 16.
void launch_dense(void* stream, float* out, const float* x, const float* w, int rows, int n);
/// x = max(x, 0), n elements.
void launch_relu(void* stream, float* x, int n);
/// y = x * factor, and y = x + summand; n is a multiple of 4.
void launch_scale(void* stream, float* y, const float* x, float factor, std::int64_t n);
void launch_shift(void* stream, float* y, const float* x, float summand, std::int64_t n);

/// A symmetric, positive definite matrix of n rows, well conditioned: 1 / (1 + |row - column|), and 1 on the diagonal.
void launch_fill_symmetric(void* stream, double* matrix, int n);

}  // namespace sluice::bench
