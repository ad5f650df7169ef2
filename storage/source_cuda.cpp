#include <cuda_runtime_api.h>

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

/// Makes a GPU current for this thread, and restores what was.
class CurrentGpu {
 public:
  explicit CurrentGpu(int index) noexcept {
    if (cudaGetDevice(&before_) != cudaSuccess)
      before_ = index;
    if (before_ != index)
      cudaSetDevice(index);
    index_ = index;
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu() {
    if (before_ != index_)
      cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  int index_ = 0;
};

class PinnedSource final : public Source {
 public:
  PinnedSource() noexcept : Source(cpu(), MemoryKind::pinned, k_pinned_alignment) {}
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    const cudaError_t result = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    return checked(result, data, "cudaHostAlloc", bytes);
  }
  void deallocate(void* data) noexcept override { cudaFreeHost(data); }
};

class GpuSource final : public Source {
 public:
  explicit GpuSource(int index) noexcept : Source(gpu(index), MemoryKind::device, k_gpu_alignment) {}
  void* allocate(std::size_t bytes) override {
    const CurrentGpu scope(device().index);
    void* data = nullptr;
    const cudaError_t result = cudaMalloc(&data, bytes);
    return checked(result, data, "cudaMalloc", bytes);
  }
  void deallocate(void* data) noexcept override {
    const CurrentGpu scope(device().index);
    cudaFree(data);
  }
};

}  // namespace

std::unique_ptr<Source> make_pinned_source() {
  return std::make_unique<PinnedSource>();
}
std::unique_ptr<Source> make_gpu_source(int index) {
  return std::make_unique<GpuSource>(index);
}

}  // namespace sluice::detail
