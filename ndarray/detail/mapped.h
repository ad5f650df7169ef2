#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <sluice/engine/export.h>

// Memory of the host that GPUs read and write where it lies: what goes in and out of a graph that is launched for few
// values is then part of the graph, a kernel each, and the host sees by a flag that all is there.
namespace sluice::detail {

#ifdef SLUICE_CUDA
// Of small_read_cuda.cu
/// Host memory that every GPU reaches at the same address. Throws CudaError, OutOfMemory.
SLUICE_API void* allocate_mapped(std::size_t bytes);
SLUICE_API void free_mapped(void* memory) noexcept;

/// Copies mapped memory to a GPU's, enqueued on a cudaStream_t. Throws CudaError.
SLUICE_API void fetch_mapped(void* stream, void* to, const void* mapped, std::size_t bytes);
/// The other way; then, if there is one, writes 1 to the mapped `flag`: all before it on the stream has been done, and
/// who sees it sees that. Throws CudaError.
SLUICE_API void deliver_mapped(void* stream, void* mapped, const void* from, std::size_t bytes, std::uint64_t* flag);

/// Owns mapped memory.
class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(std::size_t bytes) : data_(static_cast<std::byte*>(allocate_mapped(bytes))) {}
  MappedMemory(MappedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  MappedMemory& operator=(MappedMemory other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~MappedMemory() {
    if (data_ != nullptr)
      free_mapped(data_);
  }
  std::byte* data() const noexcept { return data_; }
  /// In a forked child: it is the parent's.
  void release() noexcept { data_ = nullptr; }

 private:
  std::byte* data_ = nullptr;
};
#endif

}  // namespace sluice::detail
