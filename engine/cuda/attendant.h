#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <boost/thread/thread.hpp>

namespace sluice::detail {

/// A thread that looks after what must happen later and that nobody waits for: CPU tasks behind GPU work, batches that
/// nobody launches, streams that are far behind. Asleep while there is nothing of that kind.
class Attendant {
 public:
  enum class Seen : std::uint8_t { nothing, work, progress };
  /// look() does what is due; `work`: there is something left to look after.
  explicit Attendant(std::function<Seen()> look) : look_(std::move(look)) {}
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;
  ~Attendant() { stop(); }

  /// There is something to look after. Cheap while the thread is awake.
  void wake();
  void stop();

 private:
  void live();

  const std::function<Seen()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> awake_{false};
  bool stopping_ = false;
  boost::thread thread_;
};

}  // namespace sluice::detail
