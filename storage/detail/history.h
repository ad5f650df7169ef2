#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/storage/snapshot.h>

namespace sluice::detail {

/// The last events of a pool, in a ring. Off until sized; under the pool's lock.
class History {
 public:
  bool on() const noexcept { return !ring_.empty(); }
  /// Forgets what it held. Throws std::bad_alloc.
  void resize(std::size_t events);
  void note(MemoryEvent::Kind kind, const void* data, std::size_t bytes, std::size_t requested) noexcept;
  /// Oldest first.
  std::vector<MemoryEvent> events() const;
  std::uint64_t lost() const noexcept { return count_ > ring_.size() ? count_ - ring_.size() : 0; }

 private:
  std::vector<MemoryEvent> ring_;
  std::uint64_t count_ = 0;
};

}  // namespace sluice::detail
