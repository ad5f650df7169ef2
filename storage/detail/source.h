#pragma once

#include <cstddef>
#include <memory>

#include <sluice/engine/device.h>
#include <sluice/storage/chunk.h>

namespace sluice::detail {

/// Where a pool gets memory from. Thread-safe.
class Source {
 public:
  Source(Device device, MemoryKind kind, std::size_t alignment) noexcept
      : device_(device), kind_(kind), alignment_(alignment) {}
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// Null when memory has run out; throws CudaError for anything else that went wrong.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data) noexcept = 0;

  /// Bytes that the source itself keeps beside what it gave out.
  virtual std::size_t kept() const noexcept { return 0; }
  /// Gives these back to the system; returns how many.
  virtual std::size_t trim() noexcept { return 0; }

  Device device() const noexcept { return device_; }
  MemoryKind kind() const noexcept { return kind_; }
  std::size_t alignment() const noexcept { return alignment_; }

 private:
  Device device_;
  MemoryKind kind_;
  std::size_t alignment_;
};

std::unique_ptr<Source> make_host_source();
#ifdef SLUICE_CUDA
/// Page-locked, mapped, usable from every GPU.
std::unique_ptr<Source> make_pinned_source();
std::unique_ptr<Source> make_gpu_source(int index);
/// The driver's own pool: cudaMallocFromPoolAsync. It keeps what it has until trimmed. Throws CudaError.
std::unique_ptr<Source> make_async_source(int index);
#endif

}  // namespace sluice::detail
