#include <algorithm>

#include <sluice/engine/detail/restraint.h>

namespace sluice::detail {

namespace {

constexpr std::chrono::nanoseconds k_price = std::chrono::seconds(2);
constexpr int k_idle_weight = 200;
constexpr int k_quiet_windows = 3;
constexpr int k_busy_share = 10;  // less than a tenth of a core is somebody who only looks now and then

}  // namespace

void Restraint::look(const Activity& now, std::uint64_t progress, const std::function<bool()>& is_runnable) {
  if (stuck_at_.load(std::memory_order_relaxed) != progress) {
    beyond_.store(0, std::memory_order_relaxed);
    stuck_at_.store(progress, std::memory_order_relaxed);
    patience_ = {};
    quiet_ = 0;
    seen_ = now;
    return;
  }
  const std::chrono::nanoseconds passed = now.at - seen_.at;
  if (passed < k_window)
    return;
  // Threads come and go, so that the sum of their clocks may fall.
  const auto worked = std::chrono::abs(now.cpu_time - seen_.cpu_time);
  const bool busy = now.fenced || now.retired != seen_.retired || worked >= passed / k_busy_share || is_runnable();
  quiet_ = busy ? 0 : quiet_ + 1;
  // At most two windows: nobody may have looked for long, or the machine slept.
  const std::chrono::nanoseconds counted = std::min<std::chrono::nanoseconds>(passed, 2 * k_window);
  patience_ += counted * (quiet_ >= k_quiet_windows ? k_idle_weight : 1);
  seen_ = now;
  const std::uint64_t steps = static_cast<std::uint64_t>(patience_ / k_price);
  beyond_.store(steps * step_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace sluice::detail
