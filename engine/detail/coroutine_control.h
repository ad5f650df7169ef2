#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <stop_token>

#include <sluice/engine/coroutine.h>
#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/pending_wait.h>

namespace sluice::detail {

/// A coroutine body beside its task: how it stands, and what its await ends with. Lives as long as the task's node, so
/// that a handle may cancel at any time.
class CoroutineControl final : public WaitObserver {
 public:
  CoroutineControl(Coroutine&& made, TaskNode* task) noexcept;
  CoroutineControl(const CoroutineControl&) = delete;
  CoroutineControl& operator=(const CoroutineControl&) = delete;
  ~CoroutineControl();

  /// Runs the body until it waits or ends. True if it has ended; otherwise it may run elsewhere by now.
  bool run();
  /// After the end: destroys the body's frame; null, or what the body threw.
  FailureRef take_outcome() noexcept;
  /// See TaskHandle::cancel().
  bool cancel();

  // -- Called by the body
  // ----------------------------------------------------------------------------------------------
  /// Starts to wait. False if that is over already.
  bool suspend(Access access) noexcept;
  /// Throws what the await ended with.
  void rethrow_result();
  void fail() noexcept;
  void end() noexcept;

  void complete(std::exception_ptr error) noexcept override;
  /// What it waits for, if it is suspended.
  std::optional<PendingWait> awaited() const;

 private:
  // starting: the wait is under way, the body not suspended yet; told: it was over before the body suspended.
  enum class Phase { running, starting, told, suspended, ended };

  struct Cancels {
    CoroutineControl* control;
    void operator()() const { control->cancel(); }
  };

  bool start_to_wait(Access access);
  std::exception_ptr cancelled() const noexcept;

  TaskNode* const task_;
  const std::uint32_t forks_ = fork_count();  // not asked of the engine, which may be gone before this
  std::coroutine_handle<Coroutine::promise_type> frame_;
  bool* ended_ = nullptr;      // on the stack of the thread that runs the body
  std::exception_ptr result_;  // of the last await
  FailureRef outcome_;
  bool knows_of_stop_ = false;                                    // its engine is being cancelled, and it was told
  std::optional<std::stop_callback<Cancels>> stop_, group_stop_;  // of the task's stop token and of its group's

  mutable SpinLock lock_;
  Phase phase_ = Phase::running;
  bool cancel_requested_ = false;
  std::optional<PendingWait> awaited_;
  Blocked blocked_;
};

}  // namespace sluice::detail
