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
/// nobody launches, streams that are far behind; or after the tasks of one GPU. Asleep while there is nothing to do.
class Attendant {
 public:
  enum class Seen : std::uint8_t { nothing, work, progress };
  /// look() does what is due; `work`: there is something left to look after. `eager`: how often in a row it looks in
  /// vain before it rests between looks.
  explicit Attendant(std::function<Seen()> look, int eager = 0) : look_(std::move(look)), eager_(eager) {}
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;
  ~Attendant() { stop(); }

  /// There is something to look after. Cheap while the thread is awake. Throws if there can be no such thread.
  void wake();
  void stop();

 private:
  void live();

  const std::function<Seen()> look_;
  const int eager_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> awake_{false};
  bool stopping_ = false;
  boost::thread thread_;
};

}  // namespace sluice::detail
