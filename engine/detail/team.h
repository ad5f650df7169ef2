#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace sluice::detail {

/// The one thread that calls libraries which bring a team of threads of their own (OpenMP). A team belongs to the
/// thread that first uses it, so with a single caller the process has a single team. Made at first use, never ended.
class TeamThread {
 public:
  static TeamThread& instance();

  /// True if the caller may now call run(), until it calls release().
  bool try_acquire() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() noexcept { taken_.store(false, std::memory_order_release); }
  /// Runs `work`, which must not throw, on the team's thread; the caller rests until it is done.
  void run(const std::function<void()>& work);

 private:
  TeamThread();
  void serve();

  std::atomic<bool> taken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
};

}  // namespace sluice::detail
