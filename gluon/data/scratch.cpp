#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/gluon/data/detail/scratch.h>

namespace sluice::gluon::data::detail {

namespace {

using Memory = std::vector<std::byte>;

constexpr std::size_t k_most_kept = std::size_t{256} << 20;

/// Of the whole process.
class Kept {
 public:
  /// Some that fits, and is not much larger: that is for who needs so much. None if there is none.
  Memory take(std::size_t bytes) {
    const std::lock_guard hold(mutex_);
    used_ += bytes;
    auto found = free_.end();
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->size() >= bytes && at->size() / 2 <= bytes && (found == free_.end() || at->size() < found->size()))
        found = at;
    }
    Memory taken;
    if (found != free_.end()) {
      taken = std::move(*found);
      free_.erase(found);
      kept_ -= taken.size();
    }
    drop_to_limit();
    return taken;
  }

  void give(std::size_t bytes, Memory&& memory) {
    const std::lock_guard hold(mutex_);
    most_used_ = std::max(most_used_, used_);
    used_ -= bytes;
    try {
      const std::size_t more = memory.size();
      free_.push_back(std::move(memory));
      kept_ += more;
    } catch (...) {  // it goes back to the system then
    }
    drop_to_limit();
  }

  void give_up(std::size_t bytes) {
    const std::lock_guard hold(mutex_);
    used_ -= bytes;
  }

  void drop_all() {
    const std::lock_guard hold(mutex_);
    free_.clear();
    kept_ = 0;
  }

  std::size_t bytes() {
    const std::lock_guard hold(mutex_);
    return kept_;
  }

 private:
  // What was used longest ago goes first.
  void drop_to_limit() {
    auto end = free_.begin();
    const std::size_t most = std::min(k_most_kept, 2 * std::max(most_used_, used_) - used_);
    for (; end != free_.end() && kept_ > most; ++end)
      kept_ -= end->size();
    free_.erase(free_.begin(), end);
  }

  std::mutex mutex_;
  const sluice::detail::HeldOverForks over_forks_{mutex_};
  std::vector<Memory> free_;                         // the last used last
  std::size_t kept_ = 0, used_ = 0, most_used_ = 0;  // bytes; used ones as they were asked for
};

// For threads that end after static objects do as well.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

}  // namespace

Scratch::Scratch(std::size_t bytes) : bytes_(bytes), memory_(kept().take(bytes)) {
  if (memory_.size() >= bytes)
    return;
  try {
    try {
      memory_.resize(bytes);
    } catch (const std::bad_alloc&) {
      kept().drop_all();
      memory_.resize(bytes);
    }
  } catch (...) {
    kept().give_up(bytes);
    throw;
  }
}

Scratch::~Scratch() {
  kept().give(bytes_, std::move(memory_));
}

std::size_t Scratch::kept_bytes() {
  return kept().bytes();
}

}  // namespace sluice::gluon::data::detail
