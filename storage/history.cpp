#include <chrono>

#include <sluice/storage/detail/history.h>

namespace sluice::detail {

void History::resize(std::size_t events) {
  ring_ = std::vector<MemoryEvent>(events);
  count_ = 0;
}

void History::note(MemoryEvent::Kind kind, const void* data, std::size_t bytes, std::size_t requested) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  MemoryEvent& event = ring_[count_++ % ring_.size()];
  event.kind = kind;
  event.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  event.address = reinterpret_cast<std::uintptr_t>(data);
  event.bytes = bytes;
  event.requested = requested;
}

std::vector<MemoryEvent> History::events() const {
  std::vector<MemoryEvent> list;
  const std::uint64_t first = lost();
  list.reserve(count_ - first);
  for (std::uint64_t i = first; i < count_; ++i)
    list.push_back(ring_[i % ring_.size()]);
  return list;
}

}  // namespace sluice::detail
