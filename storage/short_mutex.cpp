#include <sluice/storage/detail/short_mutex.h>

namespace sluice::detail {

// Whoever has slept cannot know whether others still do: the word says so until it is given up once more.
void ShortMutex::lock_later() noexcept {
  while (word_.exchange(k_wanted, std::memory_order_acquire) != k_free)
    word_.wait(k_wanted, std::memory_order_relaxed);
}

}  // namespace sluice::detail
