// Holding all lists of Vars still. Whoever changes them says so in its own slot and looks whether a pause is wanted;
// whoever wants one says so, makes every thread pass a fence, and waits until no slot says "inside".
#include <thread>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/futex.h>

namespace sluice::detail {

void Core::enter_lists_later(const ThisThread& here) noexcept {
  std::atomic<int>& inside = counts(here).inside;
  do {
    count_inside(inside, here.owns_slot(), -1);
    futex_wait(paused_, 1, std::chrono::milliseconds(100));
    count_inside(inside, here.owns_slot(), 1);
    light_fence(paused_);
  } while (paused_.load(std::memory_order_relaxed) != 0);
}

void Core::halt_lists() {
  pause_mutex_.lock();
  paused_.store(1, std::memory_order_seq_cst);
  heavy_fence();
  for (CountShard& shard : counts_) {
    while (shard.inside.load(std::memory_order_acquire) != 0)
      std::this_thread::yield();
  }
}

void Core::resume_lists() {
  paused_.store(0, std::memory_order_seq_cst);
  futex_wake_all(paused_);
  pause_mutex_.unlock();
}

}  // namespace sluice::detail
