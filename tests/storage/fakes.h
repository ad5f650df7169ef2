#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <sluice/storage/detail/shelf_pool.h>
#include <sluice/storage/detail/split_pool.h>

#include "tests/storage/fake_pages.h"

namespace sluice::test {

/// Host memory with a bound on what it gives out; counts what is out.
class BoundedSource final : public detail::MemorySource {
 public:
  BoundedSource(
      std::size_t most, std::atomic<std::size_t>& out, std::function<void()> on_deallocate = [] {})
      : MemorySource(cpu(), MemoryKind::host, 64), most_(most), out_(out), on_deallocate_(std::move(on_deallocate)) {}
  void* allocate(std::size_t bytes) override {
    if (out_ + bytes > most_)
      return nullptr;
    out_ += bytes;
    return take_sized(bytes);
  }
  void deallocate(void* data) noexcept override {
    on_deallocate_();
    out_ -= give_sized(data);
  }

 private:
  std::size_t most_;
  std::atomic<std::size_t>& out_;
  const std::function<void()> on_deallocate_;
};

/// Memory of a GPU that is only addresses: nobody reads or writes there.
class AddressSource final : public detail::MemorySource {
 public:
  AddressSource() : MemorySource(gpu(0), MemoryKind::device, 256) {}
  void* allocate(std::size_t bytes) override {
    next_ += bytes;
    return reinterpret_cast<void*>(next_ - bytes);
  }
  void deallocate(void*) noexcept override {}

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

/// Streams whose progress the test decides: all have come as far as `now`.
struct Clock final : detail::Passage {
  static constexpr std::uint16_t k_first_copy_stream = 100;

  bool copies(Position position) const noexcept override { return position.stream() >= k_first_copy_stream; }
  bool passed(const PositionSet& positions) const noexcept override {
    for (const Position position : positions) {
      if (position.sequence() > now)
        return false;
    }
    return true;
  }
  void wait_passed(const PositionSet& positions) override {
    ++waits;
    for (const Position position : positions) {
      if (now < position.sequence())
        now = position.sequence();
      waited.push_back(position);
    }
  }
  void relieve(Device) override { ++relieved; }

  std::atomic<std::uint64_t> now{0};
  int waits = 0, relieved = 0;
  std::vector<Position> waited;
};

/// Streams that come forward by themselves, each at its pace; never backwards. Any thread.
struct Streams final : detail::Passage {
  static constexpr std::size_t k_count = 8;

  bool passed(const PositionSet& positions) const noexcept override {
    for (const Position position : positions) {
      if (done[position.stream()].load(std::memory_order_acquire) < position.sequence())
        return false;
    }
    return true;
  }
  void wait_passed(const PositionSet& positions) override {
    for (const Position position : positions)
      reach(position.stream(), position.sequence());
  }
  void relieve(Device) override {}
  /// Stream `stream` has passed `sequence`.
  void reach(std::uint16_t stream, std::uint64_t sequence) noexcept {
    std::uint64_t before = done[stream].load();
    while (before < sequence && !done[stream].compare_exchange_weak(before, sequence)) {
    }
  }

  std::atomic<std::uint64_t> done[k_count]{};
};

/// A pool by name over memory of `most` bytes. split: small figures, so that tests see many segments.
inline std::unique_ptr<Pool> make_pool(
    detail::Passage& passage,
    std::size_t most,
    std::atomic<std::size_t>& out,
    std::string_view name = "bucket",
    std::function<void()> on_deallocate = [] {}) {
  if (name == "paged")
    return std::move(PagedMemory(passage, most, out).pool);
  auto source = std::make_unique<BoundedSource>(most, out, std::move(on_deallocate));
  if (name == "split") {
    const detail::SplitOptions options{
        .small_most = 1024, .small_segment = 8192, .large_segment = 65536, .page = 4096, .release_threshold = 0};
    return std::make_unique<detail::SplitPool>(passage, std::move(source), options);
  }
  if (name == "direct")
    return std::make_unique<detail::DirectPool>(passage, name, detail::exact_rule(64), std::move(source));
  return std::make_unique<detail::ShelfPool>(passage, detail::bucket_rule(64, false), std::move(source));
}

}  // namespace sluice::test
