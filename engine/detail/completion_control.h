#pragma once

#include <atomic>
#include <optional>
#include <stop_token>

#include <sluice/engine/detail/failure.h>

namespace sluice::detail {

class Core;
struct TaskNode;

/// What a task and its TaskCompletion share. The task ends with the later of two parts: its body, and whoever has the
/// TaskCompletion. Lives as long as the task's node, so that a handle may cancel at any time, and as the
/// TaskCompletion.
class CompletionControl {
 public:
  /// For a task on the thread that runs its body. Two references: the node's and the TaskCompletion's.
  explicit CompletionControl(TaskNode* task);
  CompletionControl(const CompletionControl&) = delete;
  CompletionControl& operator=(const CompletionControl&) = delete;

  /// Begins to listen for what may ask the task to end early. Before, nobody else knows of this.
  void listen();
  void body_ended(FailureRef failure) noexcept;
  /// On any thread. Null: it succeeded.
  void outside_ended(FailureRef failure) noexcept;
  /// Calls what was registered with the token, which may end the task.
  /// Of a node that has no body but holds its Vars until then.
  void holder_ended() noexcept;
  void request_stop() { std::stop_source(stop_).request_stop(); }
  std::stop_token stop_token() const { return stop_.get_token(); }

  TaskNode* task() const noexcept { return task_; }
  /// For the task that was dropped, where no memory is left to say so better.
  static const FailureRef& abandoned();
  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

 private:
  ~CompletionControl() = default;
  bool part_ended() noexcept;

  struct Stops {
    CompletionControl* control;
    void operator()() const { control->request_stop(); }
  };
  using StopCallback = std::stop_callback<Stops>;

  TaskNode* const task_;
  std::stop_source stop_;
  std::optional<StopCallback> of_task_, of_group_, of_engine_;
  FailureRef of_body_, of_outside_;
  std::atomic<int> parts_{2};
  std::atomic<int> references_{2};
};

}  // namespace sluice::detail
