#pragma once

#include <atomic>

namespace sluice::detail {

/// The two sides of a store-then-look pair ("I published; does somebody sleep?" against "I sleep; was something
/// published?"). The light side is on the path of every task and costs nothing where the kernel has membarrier(2);
/// the heavy side makes all other threads of the process pass a full fence. Elsewhere both are full fences.
extern std::atomic<bool> membarrier_works;

/// Asks the kernel, once a process (and again in a forked child).
void prepare_fences() noexcept;
void heavy_fence() noexcept;

/// `looked_at` is what is loaded next.
template <class Word>
inline void light_fence([[maybe_unused]] std::atomic<Word>& looked_at) noexcept {
#if defined(__SANITIZE_THREAD__)
  looked_at.fetch_add(0, std::memory_order_seq_cst);  // the sanitizer does not know fences
#else
  if (membarrier_works.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
#endif
}

}  // namespace sluice::detail
