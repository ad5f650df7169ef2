#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/position.h>
#include <sluice/engine/task_group.h>
#include <sluice/engine/var.h>

namespace sluice::detail {

class CompletionControl;
class Core;
struct TaskNode;

/// What a group's members share. A Var of its own stands for "all have finished": the first member to come has a node
/// hold it, the last one to go ends that node. So a wait for the group is a wait for a Var, with all that belongs to
/// that. Lives as long as the TaskGroup, its members and who waits.
class GroupState {
 public:
  GroupState(Core& core, int limit);
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

  /// Which group what this thread pushes belongs to; null if none.
  static GroupState* of_this_thread(const Core& core) noexcept;
  /// For whoever makes the task: it is a member now, until leave(). Throws std::bad_alloc, and then is none.
  void enter(TaskNode& task);
  void leave() noexcept;
  /// A member's body threw.
  void note(const FailureRef& failure) noexcept;
  /// A GPU member has been issued.
  void note(Position position) noexcept;

  void wait();
  /// Throws Deadlock if the calling task would wait for itself.
  void refuse_member(const char* what) const;
  Access awaited() const noexcept { return {var_.core(), AccessMode::write}; }
  /// Throws what wait() throws, once all have finished.
  void rethrow_first();
  bool empty() const noexcept { return live_.load(std::memory_order_acquire) == 0; }
  std::stop_source& stops() noexcept { return stop_; }
  bool stop_requested() const noexcept { return stop_.stop_requested(); }
  Core& core() const noexcept { return core_; }

  /// What comes after each member: the node that holds the Var. Null if there is none. With the engine's lists at rest.
  TaskNode* holder() const noexcept { return holder_.load(std::memory_order_acquire); }
  /// A member has been pushed inside a task, which may wait for it; or did not lie ready when it was looked for.
  void note_young(std::uint64_t tag, bool try_last) noexcept;
  /// The youngest such member that has not begun, kept; null if none is known.
  TaskNode* keep_youngest(bool (*keep)(TaskNode*, std::uint32_t), std::uint32_t& state) noexcept;

  // -- The limit ------------------------------------------------------------------------------------------------------
  bool limited() const noexcept { return limit_ > 0; }
  /// A member's body may run: gives it to the CPU policy, now or once there is a place.
  void submit(TaskNode* task);
  /// A member that has a place has ended, or waits, on the thread of its body or on one that helps in its loop: the
  /// next one gets it. False if it has none.
  bool give_place(TaskNode& task) noexcept;
  /// It goes on after a wait.
  void take_place(TaskNode& task) noexcept;
  /// Whether a member that wants a place may be run here by who waits for it: where there is a place, or on top of a
  /// member that keeps its own meanwhile, as the two are one thread.
  bool may_run_here() noexcept;
  /// It is run so. False if it has been given a place, or may not. Kept (k_twice), as it stays linked where it lay.
  bool take_ahead(TaskNode& task) noexcept;

 private:
  static constexpr std::size_t k_most_young = 64;
  static constexpr std::size_t k_most_positions = 1024;

  struct Hold;

  ~GroupState();
  void open(GroupState* parent);
  void forget_passed();
  void prepare_for_position();
  TaskNode* take_next(TaskNode*& taken) noexcept;
  bool waits_here() const noexcept;

  struct Stops {
    GroupState* group;
    void operator()() const { std::stop_source(group->stop_).request_stop(); }
  };

  Core& core_;
  const Var var_;
  const int limit_;
  GroupState* const parent_;
  std::atomic<std::uint8_t> era_;  // of the engine, at the last push
  std::atomic<int> references_{1};
  std::atomic<std::int64_t> live_{0};
  std::atomic<TaskNode*> holder_{nullptr};
  std::size_t gpu_members_ = 0;  // ever; under the Var's lock
  std::stop_source stop_;
  std::optional<std::stop_callback<Stops>> of_parent_;

  std::mutex mutex_;                  // of all below, and of the change between none and some
  CompletionControl* end_ = nullptr;  // of the holder
  FailureRef first_;
  std::vector<Position> issued_;  // GPU members, which may yet fail
  std::array<std::uint64_t, k_most_young> young_ = {};
  std::size_t young_count_ = 0;
  int places_taken_ = 0;
  TaskNode* next_ = nullptr;  // members without a place, the eldest first
  TaskNode* last_ = nullptr;
};

/// While it lives, a body that waits, and those below it on its thread, have given their places in their groups to
/// other members.
class GivenPlaces {
 public:
  explicit GivenPlaces(TaskNode& task) noexcept;
  GivenPlaces(const GivenPlaces&) = delete;
  GivenPlaces& operator=(const GivenPlaces&) = delete;
  ~GivenPlaces();

 private:
  TaskNode* const task_;  // null if it gave none
};

}  // namespace sluice::detail
