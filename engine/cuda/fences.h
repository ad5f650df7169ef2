#pragma once

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include <sluice/engine/cuda/background_poller.h>
#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/position.h>

namespace sluice::detail {

class Core;
struct TaskNode;

/// CPU tasks, and threads that may make no call of CUDA's, that wait for the GPU to pass positions: the poller asks the
/// driver for all of them. Owned by StreamPolicy; for any thread, but for open(), which is the poller's.
class Fences {
 public:
  Fences(Core& core, LogicalStreamTable& table) : core_(core), table_(table) {}
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  /// Calls core.run_fenced(task) once the GPU has passed `positions`. The poller is to be woken.
  void add(TaskNode* task, const PositionSet& positions);
  /// The same for whoever waits for `waiter`, which gets the exception if there is one.
  void add(std::promise<void>& waiter, Position position);
  /// Has the driver asked how far all streams are. The poller is to be woken.
  void look_soon() noexcept { asked_.store(true, std::memory_order_relaxed); }
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  BackgroundPoller::Seen open();

 private:
  struct Fence {
    TaskNode* task;
    PositionSet positions;
    std::promise<void>* waiter = nullptr;  // if there is no task
  };
  void add(Fence&& fence);
  bool look() noexcept;
  bool passed(const Fence& fence);
  bool try_open(Fence& fence);

  Core& core_;
  LogicalStreamTable& table_;
  std::mutex mutex_;
  std::vector<Fence> new_;
  std::vector<Fence> watched_;  // the poller's
  std::atomic<int> count_{0};   // in both
  std::atomic<bool> asked_{false};
};

}  // namespace sluice::detail
