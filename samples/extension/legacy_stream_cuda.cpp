#include <algorithm>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/extension/kernels.h"
#include "samples/extension/parts.h"

namespace samples {

using namespace sluice;

namespace {

constexpr int k_count = 1 << 20;
constexpr std::size_t k_bytes = k_count * sizeof(float);

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw CudaError(message(call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}

cudaStream_t stream_of(Queue queue) {
  return static_cast<cudaStream_t>(queue.stream());
}

struct Free {
  void operator()(float* memory) const { cudaFree(memory); }
};

}  // namespace

void legacy_stream() {
  if (num_gpus() == 0) {
    fmt::print("legacy_stream: left out, it needs a GPU\n");
    return;
  }
  void* allocated = nullptr;
  check(cudaMalloc(&allocated, k_bytes), "cudaMalloc");
  auto* const memory = static_cast<float*>(allocated);
  const std::unique_ptr<float, Free> owner(memory);
  std::vector<float> in(k_count, 3.0F), out_of_it(k_count);
  Engine engine;
  const Var there = engine.new_var({.home = gpu(0)}), here = engine.new_var();
  engine.push(
      {.name = "bring in", .device = gpu(0), .access = {out(there)}, .stream = StreamKind::copy_in},
      [memory, &in](Queue queue) {
        check(cudaMemcpyAsync(memory, in.data(), k_bytes, cudaMemcpyHostToDevice, stream_of(queue)), "in");
      });
  // The engine's streams do not wait for the legacy one, nor that for them: the task says that its body uses it.
  for (int turn = 0; turn < 2; ++turn) {
    engine.push({.name = "pasted", .device = gpu(0), .access = {write(there)}, .legacy_stream = true}, [memory](Queue) {
      pasted_square(memory, k_count);
      check(cudaGetLastError(), "pasted_square");
    });
  }
  engine.push(
      {.name = "bring back", .device = gpu(0), .access = {read(there), out(here)}, .stream = StreamKind::copy_out},
      [memory, &out_of_it](Queue queue) {
        check(cudaMemcpyAsync(out_of_it.data(), memory, k_bytes, cudaMemcpyDeviceToHost, stream_of(queue)), "out");
      });
  engine.wait(here);
  const auto right = std::count(out_of_it.begin(), out_of_it.end(), 81.0F);
  fmt::print("legacy_stream: {} of {} numbers are right\n", right, k_count);
  require<Error>(right == k_count, [] { return "legacy_stream: the kernel ran at the wrong time"; });
}

}  // namespace samples
