#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include <boost/thread/thread.hpp>

namespace sluice::detail {

/// A thread that looks after what must happen later and that nobody waits for: CPU tasks behind GPU work, batches that
/// nobody launches, streams that are far behind. Asleep while there is nothing to do.
class BackgroundPoller {
 public:
  enum class Seen : std::uint8_t { nothing, work, progress };
  /// poll() does what is due; `work`: there is something left to look after.
  explicit BackgroundPoller(std::function<Seen()> poll) : poll_(std::move(poll)) {}
  BackgroundPoller(const BackgroundPoller&) = delete;
  BackgroundPoller& operator=(const BackgroundPoller&) = delete;
  ~BackgroundPoller() { stop(); }

  /// There is something to look after. Cheap while the thread is awake. The first call makes the thread: throws
  /// ThreadError if it cannot be had.
  void wake();
  void stop();
  /// Waits until the thread sleeps, but not beyond `deadline`: who ends the process takes the driver from under it.
  void rest(std::chrono::steady_clock::time_point deadline);
  /// After stop(): as at first. Throws ThreadError.
  void restart();
  /// Is the calling thread the poller's?
  bool is_here() const noexcept { return thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  void begin();
  void live();

  const std::function<Seen()> poll_;
  std::mutex mutex_;
  std::condition_variable changed_, fell_asleep_;
  std::atomic<bool> awake_{false};
  bool stopping_ = false;
  bool asleep_ = false;
  std::atomic<std::thread::id> thread_id_{};
  boost::thread thread_;
};

}  // namespace sluice::detail
