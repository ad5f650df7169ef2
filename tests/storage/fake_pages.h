#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/storage/detail/paged_pool.h>

namespace sluice::test {

/// Host memory that knows its size, aligned to 64.
inline void* take_sized(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  *reinterpret_cast<std::size_t*>(data) = bytes;
  return data + 64;
}
/// Returns its size.
inline std::size_t give_sized(void* data) noexcept {
  auto* start = static_cast<std::byte*>(data) - 64;
  const std::size_t bytes = *reinterpret_cast<std::size_t*>(start);
  std::free(start);
  return bytes;
}

/// Pages of host memory that really move: of a file without a name, put at addresses and taken from there. Ends the
/// program at a read or write where no page is, and when a page is put where one is, or goes back twice or while it is
/// somewhere. Counts what is out; thread-safe.
class HostPages final : public detail::PageSource {
 public:
  static constexpr std::size_t k_page = 4096;  // the system's

  HostPages(std::size_t most, std::atomic<std::size_t>& out)
      : PageSource(cpu(), MemoryKind::host, 64, k_page), most_(most), out_(out), file_(memfd_create("pages", 0)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(most / k_page * k_page)) != 0)
      std::abort();
    for (std::size_t i = most / k_page; i > 0; --i)
      unused_.push_back(i);
    out_of_store_.resize(most / k_page + 1);
  }
  ~HostPages() override { close(file_); }

  void* allocate(std::size_t bytes) override { return count(bytes) ? take_sized(bytes) : nullptr; }
  void deallocate(void* data) noexcept override { out_ -= give_sized(data); }

  std::size_t addresses() const override { return std::size_t{1} << 28; }
  std::byte* reserve(std::size_t bytes) override {
    void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
  void unreserve(std::byte* data, std::size_t bytes) noexcept override { munmap(data, bytes); }
  bool has(std::size_t pages) const override {
    const std::lock_guard lock(mutex_);
    return unused_.size() >= pages;
  }
  std::optional<Page> make() override {
    const std::lock_guard lock(mutex_);
    if (unused_.empty() || !count(k_page))
      return std::nullopt;
    const Page page = unused_.back();
    unused_.pop_back();
    out_of_store_[page] = true;
    ++made;
    return page;
  }
  void destroy(Page page) noexcept override {
    on_destroy();
    const std::lock_guard lock(mutex_);
    demand(out_of_store_[page], "a page goes back twice");
    for (const auto& [address, there] : mapped_)
      demand(there != page, "a page goes back that is still at an address");
    out_of_store_[page] = false;
    unused_.push_back(page);
    out_ -= k_page;
  }
  bool map(std::byte* data, std::span<const Page> pages) override {
    const std::lock_guard lock(mutex_);
    for (const Page page : pages) {
      if (maps_left.fetch_sub(1) <= 0) {
        if (refuses)
          return false;
        throw CudaError("no page can be put there", 2);
      }
      demand(out_of_store_[page] && mapped_.emplace(data, page).second, "a page is put where one is");
      const auto offset = static_cast<off_t>((page - 1) * k_page);
      if (mmap(data, k_page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, offset) == MAP_FAILED)
        std::abort();
      data += k_page;
    }
    return true;
  }
  void unmap(std::byte* data, std::size_t pages) noexcept override {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < pages; ++i)
      mapped_.erase(data + i * k_page);
    mmap(data, pages * k_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }

  std::atomic<long> maps_left{1L << 40};  // pages that can be put somewhere
  std::atomic<bool> refuses{false};       // the next, rather than throw
  std::function<void()> on_destroy = [] {};
  std::atomic<std::size_t> made{0};

 private:
  static void demand(bool holds, const char* what) noexcept {
    if (holds)
      return;
    std::fprintf(stderr, "HostPages: %s\n", what);
    std::abort();
  }
  bool count(std::size_t bytes) noexcept {
    if (out_ + bytes > most_)
      return false;
    out_ += bytes;
    return true;
  }

  std::size_t most_;
  std::atomic<std::size_t>& out_;
  int file_;
  mutable std::mutex mutex_;
  std::vector<Page> unused_;
  std::vector<bool> out_of_store_;  // by page
  std::map<std::byte*, Page> mapped_;
};

inline constexpr detail::SplitOptions k_small_pages{
    .small_most = 1024, .small_segment = 8192, .page = 4096, .merge_pending = false};

/// A paged pool of `most` bytes, and its source, which the pool owns.
struct PagedMemory {
  PagedMemory(detail::Passage& passage, std::size_t most, std::atomic<std::size_t>& out) {
    auto source = std::make_unique<HostPages>(most, out);
    pages = source.get();
    const std::size_t line = source->addresses();
    pool = std::make_unique<detail::PagedPool>(passage, std::move(source), line, k_small_pages);
  }
  HostPages* pages;
  std::unique_ptr<Pool> pool;
};

}  // namespace sluice::test
