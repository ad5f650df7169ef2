#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace sluice::detail {

/// What an engine's threads have done by a moment: by it those who rest judge whether resting is of use.
struct Activity {
  std::chrono::steady_clock::time_point at;
  std::chrono::nanoseconds cpu_time{0};  // of the threads that run bodies now
  std::uint64_t retired = 0;             // tasks
  bool fenced = false;                   // CPU tasks wait for a GPU
};

/// A limit that pushers rest at, and how far beyond it they may go where resting has been in vain: what the others wait
/// for may be in a pusher's hands. As long as nothing of what is limited goes, `step` more is allowed for each 10 ms in
/// which nobody worked (after the first 20), and for each 2 s in which bodies ran. So it holds that there is never more
/// than limit + step * (idle time / 10 ms + busy time / 2 s) of it, where the times are those of the longest
/// standstill, and one push; and that a pusher which holds the gate itself comes through at a step every 10 ms.
class Restraint {
 public:
  static constexpr std::uint64_t k_none = ~std::uint64_t{0} / 4;

  /// Before anybody rests.
  void set(std::uint64_t limit, std::uint64_t step) noexcept {
    step_.store(step, std::memory_order_relaxed);
    limit_.store(limit, std::memory_order_relaxed);
  }
  std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  /// Who has begun to rest goes on from here.
  std::uint64_t enough() const noexcept { return limit() - limit() / 8; }
  /// `progress` counts what has gone so far.
  std::uint64_t allowed(std::uint64_t progress) const noexcept {
    return limit() +
           (stuck_at_.load(std::memory_order_relaxed) == progress ? beyond_.load(std::memory_order_relaxed) : 0);
  }

  // -- For those who rest, one at a time --
  /// Whether look() would learn anything.
  bool is_due(std::chrono::steady_clock::time_point now, std::uint64_t progress) const noexcept {
    return stuck_at_.load(std::memory_order_relaxed) != progress || now - seen_.at >= k_window;
  }
  /// `is_runnable` says whether some thread that runs bodies wants a core now; asked only if clocks say no.
  void look(const Activity& now, std::uint64_t progress, const std::function<bool()>& is_runnable);
  /// In a forked child.
  void forget() noexcept { stuck_at_.store(~std::uint64_t{0}, std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::milliseconds k_window{10};

  std::atomic<std::uint64_t> limit_{k_none};
  std::atomic<std::uint64_t> step_{0};
  std::atomic<std::uint64_t> stuck_at_{~std::uint64_t{0}};  // the progress for which beyond_ holds
  std::atomic<std::uint64_t> beyond_{0};
  Activity seen_;
  std::chrono::nanoseconds patience_{0};  // spent since; some buys a step
  int quiet_ = 0;                         // windows in which nobody worked, one after the other
};

}  // namespace sluice::detail
