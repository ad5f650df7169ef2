#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <sluice/engine/device.h>
#include <sluice/storage/chunk.h>

namespace sluice::detail {

/// Where a pool gets memory from. Thread-safe.
class MemorySource {
 public:
  MemorySource(Device device, MemoryKind kind, std::size_t alignment) noexcept
      : device_(device), kind_(kind), alignment_(alignment) {}
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;
  virtual ~MemorySource() = default;

  /// Null when memory has run out; throws CudaError for anything else that went wrong.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data) noexcept = 0;

  /// What it gave and will give is reachable from the GPU `peer` too, which ordinary GPU memory is once the driver has
  /// connected the two.
  virtual void share(int /*peer*/) {}

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

/// Physical memory in pages of one size, which are put at addresses and taken from there; and ordinary memory. All
/// calls but the noexcept ones throw CudaError for what is not just "out of memory".
class PageSource : public MemorySource {
 public:
  using Page = std::uint64_t;

  PageSource(Device device, MemoryKind kind, std::size_t alignment, std::size_t page_bytes) noexcept
      : MemorySource(device, kind, alignment), page_bytes_(page_bytes) {}

  /// How many bytes of addresses are enough, free stretches of addresses included.
  virtual std::size_t addresses() const = 0;
  /// Addresses without memory, aligned to a page; null if there are none left.
  virtual std::byte* reserve(std::size_t bytes) = 0;
  virtual void unreserve(std::byte* data, std::size_t bytes) noexcept = 0;
  /// There seems to be memory for so many.
  virtual bool has(std::size_t pages) const = 0;
  /// A page that is nowhere yet; nothing when memory has run out.
  virtual std::optional<Page> make() = 0;
  virtual void destroy(Page page) noexcept = 0;
  /// Puts pages side by side, from `data` on. False when memory for it has run out. Then, and when it throws, some of
  /// them may be there.
  virtual bool map(std::byte* data, std::span<const Page> pages) = 0;
  /// Takes `pages` pages from their addresses: no work may use them any more. Where none is, nothing happens.
  virtual void unmap(std::byte* data, std::size_t pages) noexcept = 0;

  std::size_t page_bytes() const noexcept { return page_bytes_; }

 private:
  std::size_t page_bytes_;
};

std::unique_ptr<MemorySource> make_host_source();
#ifdef SLUICE_CUDA
/// Page-locked, mapped, usable from every GPU.
std::unique_ptr<MemorySource> make_pinned_source();
std::unique_ptr<MemorySource> make_gpu_source(int index);
/// The driver's virtual memory management; null where it has none. Throws CudaError.
std::unique_ptr<PageSource> make_page_source(int index);
/// The driver's own pool: cudaMallocFromPoolAsync. It keeps what it has until trimmed. Throws CudaError.
std::unique_ptr<MemorySource> make_async_source(int index);
/// Both may reach what the other has allocated in the ordinary way. False if the hardware cannot. Throws CudaError.
bool connect_gpus(int a, int b);
#endif

}  // namespace sluice::detail
