#pragma once

#include <atomic>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/position.h>

namespace sluice::detail {

struct Gpu;
struct StreamSlot;
struct TaskNode;

/// Launches tasks of one GPU one by one: the body is called on a stream that comes after what it needs. Knows whether a
/// stream is so far behind that tasks rest in the issuer's lists instead. Owned by Gpu, called by Issuer and Batches,
/// on the issuing thread; throttled() by any.
class DirectLaunch {
 public:
  explicit DirectLaunch(Gpu& gpu) : gpu_(gpu) {}

  /// The task has been started; nothing of it is issued if this throws.
  void issue(TaskNode* task, const PositionSet& needs);
  /// A task whose body has not been called and will not be.
  void fail_unissued(TaskNode* task, FailureRef failure, bool ran);
  /// Why the task must not run after all: what it reads may fail when a batch is launched for its sake.
  FailureRef failed_meanwhile(const TaskNode& task);

  /// Something was launched on the slot: should it be far behind, the driver would soon make the host wait.
  void watch_backlog(StreamSlot& slot) noexcept;
  /// For the poller, while throttled(): whether the stream has caught up.
  void recheck_backlog() noexcept;
  /// Tasks that are not urgent stay in their list.
  bool throttled() const noexcept { return throttled_.load(std::memory_order_relaxed); }

 private:
  Gpu& gpu_;
  std::atomic<bool> throttled_{false};
  StreamSlot* behind_ = nullptr;
};

}  // namespace sluice::detail
