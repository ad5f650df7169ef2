#include "samples/engine_only_cuda.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <sluice/engine/api.h>

namespace samples {

using namespace sluice;

namespace {

constexpr std::size_t k_bytes = std::size_t{1} << 20;
constexpr unsigned char k_value = 42;

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw CudaError(message(call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}

struct DeviceFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct HostFree {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};

}  // namespace

void gpu_tasks(Engine& engine) {
  void *device_memory = nullptr, *host_memory = nullptr;
  check(cudaMalloc(&device_memory, k_bytes), "cudaMalloc");
  const std::unique_ptr<void, DeviceFree> device_owner(device_memory);
  check(cudaMallocHost(&host_memory, k_bytes), "cudaMallocHost");
  const std::unique_ptr<void, HostFree> host_owner(host_memory);

  const Var there = engine.new_var({.home = gpu(0)}), here = engine.new_var(), count = engine.new_var();
  std::ptrdiff_t right = 0;
  // On a GPU a body enqueues on its queue's stream and returns; the engine orders streams by events.
  engine.push({.name = "fill", .device = gpu(0), .access = {out(there)}}, [device_memory](Queue queue) {
    check(cudaMemsetAsync(device_memory, k_value, k_bytes, static_cast<cudaStream_t>(queue.stream())), "memset");
  });
  engine.push(
      {.name = "bring back", .device = gpu(0), .access = {read(there), out(here)}, .stream = StreamKind::copy_out},
      [device_memory, host_memory](Queue queue) {
        const auto stream = static_cast<cudaStream_t>(queue.stream());
        check(cudaMemcpyAsync(host_memory, device_memory, k_bytes, cudaMemcpyDeviceToHost, stream), "memcpy");
      });
  // A CPU task that needs GPU work: a worker waits for it, the pushing thread does not.
  engine.push({.name = "count", .access = {read(here), out(count)}}, [host_memory, &right] {
    const auto* bytes = static_cast<const unsigned char*>(host_memory);
    right = std::count(bytes, bytes + k_bytes, k_value);
  });
  engine.wait(count);
  fmt::print("GPU: {} of {} bytes are right\n", right, k_bytes);
  require<Error>(right == static_cast<std::ptrdiff_t>(k_bytes), [] { return "GPU: bytes are wrong"; });
}

}  // namespace samples
