#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/detail/random.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

struct Gpu;

/// Who issues on a GPU: one thread at a time holds the lease, whoever pushes first. What others push meanwhile is left
/// in lists by class, which that thread empties before it goes; what nobody is there to issue, the poller does. Owned
/// by Gpu; for any thread.
class Issuer {
 public:
  Issuer(Gpu& gpu, std::optional<std::uint64_t> chaos);
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  /// Issues a ready task, or leaves it to the thread that holds the lease.
  void submit(TaskNode* task);
  /// Has the batch that is open launched, now or as soon as the thread that issues is through with its task.
  /// `in_body`: of another device's, so that no body of a task is called meanwhile that has not been called yet.
  void nudge(bool in_body = false);
  /// Returns once `sequence` of `logical` has been launched. Must not be called by the thread that issues.
  void await_launch(const LogicalStream& logical, std::uint64_t sequence);
  /// For the poller, again and again: launches a batch that has waited long, goes on with tasks that rest in lists.
  /// True while there is something to attend to.
  bool attend();
  /// Not 0 if the calling thread is in a body that was called for this GPU; the more GPUs it issues for, which call
  /// each other's late bodies, the greater in the innermost.
  int depth_here() const noexcept { return issuing_.load(std::memory_order_relaxed) == &this_thread() ? depth_ : 0; }
  /// See GpuPolicy.
  void sort_by_class() noexcept;
  /// For the thread that holds the lease: was it asked to launch? Once.
  bool take_launch_wanted();

 private:
  struct List {
    TaskNode* head = nullptr;
    TaskNode* tail = nullptr;
    void append(TaskNode* task) noexcept;
    void prepend(const List& list) noexcept;
    TaskNode* take(std::uint64_t skip) noexcept;
  };
  void launch_far_needs(const TaskNode& task);
  void hand_over();
  void leave(TaskNode* task) noexcept;
  void sort() noexcept;
  void give_up(TaskNode* task);
  void drain(TaskNode* task, bool tired);
  TaskNode* next_or_give_up(bool tired);

  Gpu& gpu_;
  SpinLock lock_;  // guards what follows, up to the blank line
  bool leased_ = false;
  bool launch_wanted_ = false;
  std::array<List, 3> left_;     // by class: urgent, normal and copies, background
  std::optional<Random> chaos_;  // tasks are issued late and in any order

  std::atomic<const void*> issuing_{nullptr};  // the thread that issues
  int depth_ = 0;                              // of that thread's leases; it alone looks
  std::atomic<bool> handed_over_{false};       // the poller goes on with what others have left
  std::atomic<bool> sort_wanted_{false};       // some of it has become more urgent
};

}  // namespace sluice::detail
