#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/cuda/portable_memory.h>
#include <sluice/engine/error.h>
#include <sluice/storage/detail/source.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_pinned_alignment = 64;
constexpr std::size_t k_gpu_alignment = 256;

/// Null for "out of memory", with the driver's sticky note of it cleared; throws for the rest.
void* checked(cudaError_t result, void* data, const char* call, std::size_t bytes) {
  if (result == cudaSuccess)
    return data;
  cudaGetLastError();
  if (result == cudaErrorMemoryAllocation)
    return nullptr;
  throw CudaError(message(call, " of ", bytes, " bytes: ", cudaGetErrorString(result)), static_cast<int>(result));
}

class PinnedSource final : public MemorySource {
 public:
  PinnedSource() noexcept : MemorySource(cpu(), MemoryKind::pinned, k_pinned_alignment) {}
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    const cudaError_t result = cuda::allocate_portable(&data, bytes);
    return checked(result, data, "cudaHostAlloc", bytes);
  }
  void deallocate(void* data) noexcept override { cuda::free_portable(data); }
};

class GpuSource final : public MemorySource {
 public:
  explicit GpuSource(int index) noexcept : MemorySource(gpu(index), MemoryKind::device, k_gpu_alignment) {}
  void* allocate(std::size_t bytes) override {
    const cuda::DeviceScope scope(device().index);
    void* data = nullptr;
    const cudaError_t result = cudaMalloc(&data, bytes);
    return checked(result, data, "cudaMalloc", bytes);
  }
  void deallocate(void* data) noexcept override {  // it knows its GPU by the address
    if (cudaFree(data) != cudaSuccess)
      cudaGetLastError();
  }
};

/// `from` may reach what `to` allocates with cudaMalloc.
bool enable_access(int from, int to) {
  int can = 0;
  cuda::cuda_check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
  if (can == 0)
    return false;
  const cuda::DeviceScope scope(from);
  const cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled || result == cudaErrorTooManyPeers ||
      result == cudaErrorPeerAccessUnsupported) {
    cudaGetLastError();
    return result == cudaErrorPeerAccessAlreadyEnabled;
  }
  cuda::cuda_check(result, "cudaDeviceEnablePeerAccess");
  return true;
}

}  // namespace

bool connect_gpus(int a, int b) {
  const bool there = enable_access(a, b), back = enable_access(b, a);
  return there && back;
}

std::unique_ptr<MemorySource> make_pinned_source() {
  return std::make_unique<PinnedSource>();
}
std::unique_ptr<MemorySource> make_gpu_source(int index) {
  return std::make_unique<GpuSource>(index);
}

}  // namespace sluice::detail
