#include "samples/streams/kernels.h"

namespace samples {

namespace {

__device__ int index() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void fill_kernel(std::uint32_t* words, std::uint32_t start, int n) {
  if (index() < n)
    words[index()] = start + static_cast<std::uint32_t>(index());
}

__global__ void advance_kernel(std::uint32_t* words, int n, int turns) {
  if (index() >= n)
    return;
  std::uint32_t word = words[index()];
  for (int i = 0; i < turns; ++i)
    word = word * k_factor + k_summand;
  words[index()] = word;
}

__global__ void fork_kernel(std::uint32_t* to, const std::uint32_t* from, std::uint32_t number, int n) {
  if (index() < n)
    to[index()] = from[index()] + number;
}

__global__ void join_kernel(std::uint32_t* to, const std::uint32_t* from, int n) {
  if (index() < n)
    to[index()] = 3 * to[index()] + from[index()];
}

constexpr int k_threads = 256;

unsigned blocks(int n) {
  return static_cast<unsigned>((n + k_threads - 1) / k_threads);
}

cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void enqueue_fill(void* stream, std::uint32_t* words, std::uint32_t start, int n) {
  fill_kernel<<<blocks(n), k_threads, 0, native(stream)>>>(words, start, n);
}

void enqueue_advance(void* stream, std::uint32_t* words, int n, int turns) {
  advance_kernel<<<blocks(n), k_threads, 0, native(stream)>>>(words, n, turns);
}

void enqueue_fork(void* stream, std::uint32_t* to, const std::uint32_t* from, std::uint32_t number, int n) {
  fork_kernel<<<blocks(n), k_threads, 0, native(stream)>>>(to, from, number, n);
}

void enqueue_join(void* stream, std::uint32_t* to, const std::uint32_t* from, int n) {
  join_kernel<<<blocks(n), k_threads, 0, native(stream)>>>(to, from, n);
}

}  // namespace samples
