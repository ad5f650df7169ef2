// Memory from the driver's own pool. All of its calls go to one stream that does nothing else: memory comes back here
// only when the GPU has passed its last user (DirectPool), so whatever the pool hands out next is free for every
// stream once the allocation itself is done. That is what allocate() waits for: a stream without work, so not for any
// kernel. The simplest order that is right; the price is that memory cannot be reused before its last user has ended.
#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/error.h>
#include <sluice/storage/detail/source.h>

namespace sluice::detail {
namespace {

using PoolHandle = cuda::Handle<cudaMemPool_t, cudaMemPoolDestroy>;

class AsyncSource final : public MemorySource {
 public:
  explicit AsyncSource(int index) : MemorySource(gpu(index), MemoryKind::device, 256) {
    const cuda::DeviceScope scope(index);
    int supported = 0;
    cuda::cuda_check(
        cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, index), "cudaDeviceGetAttribute");
    require<DeviceError>(supported != 0, [&] {
      return message("storage: ", gpu(index), " has no memory pools, so no pool cuda_async");
    });
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = index;
    cudaMemPool_t pool = nullptr;
    cuda::cuda_check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
    pool_ = PoolHandle(pool);
    std::uint64_t threshold = ~std::uint64_t{0};
    cuda::cuda_check(
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute");
    cudaStream_t stream = nullptr;
    cuda::cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_ = cuda::StreamHandle(stream);
  }

  void* allocate(std::size_t bytes) override {
    const cuda::DeviceScope scope(device().index);
    void* data = nullptr;
    const cudaError_t result = cudaMallocFromPoolAsync(&data, bytes, pool_.get(), stream_.get());
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    cuda::cuda_check(result, "cudaMallocFromPoolAsync");
    cuda::cuda_check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    return data;
  }
  void share(int peer) override {
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    cuda::cuda_check(cudaMemPoolSetAccess(pool_.get(), &access, 1), "cudaMemPoolSetAccess");
  }
  void deallocate(void* data) noexcept override { cudaFreeAsync(data, stream_.get()); }

  std::size_t kept() const noexcept override {
    const std::uint64_t reserved = attribute(cudaMemPoolAttrReservedMemCurrent);
    const std::uint64_t used = attribute(cudaMemPoolAttrUsedMemCurrent);
    return reserved > used ? reserved - used : 0;
  }
  std::size_t trim() noexcept override {
    const std::size_t before = kept();
    cudaStreamSynchronize(stream_.get());  // the frees, so that what they left counts as unused
    cudaMemPoolTrimTo(pool_.get(), 0);
    const std::size_t after = kept();
    return before > after ? before - after : 0;
  }

 private:
  std::uint64_t attribute(cudaMemPoolAttr which) const noexcept {
    std::uint64_t value = 0;
    return cudaMemPoolGetAttribute(pool_.get(), which, &value) == cudaSuccess ? value : 0;
  }

  PoolHandle pool_;
  cuda::StreamHandle stream_;  // ends before the pool
};

}  // namespace

std::unique_ptr<MemorySource> make_async_source(int index) {
  return std::make_unique<AsyncSource>(index);
}

}  // namespace sluice::detail
