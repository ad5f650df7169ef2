#pragma once

#include <exception>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/engine/task.h>

namespace sluice {

namespace detail {
class CoroutineControl;
struct TaskNode;
struct WaitRecord;
}  // namespace detail

/// Told that a wait has ended which occupied no thread.
class WaitObserver {
 public:
  /// Called once, outside every lock, on whichever thread ended the wait: one that finished a task, that started the
  /// wait or that cancelled it. `error` is null, or what Engine::wait() would have thrown. It passes the news on and
  /// returns; it neither blocks nor runs what belongs to the user.
  virtual void complete(std::exception_ptr error) noexcept = 0;

 protected:
  ~WaitObserver() = default;
};

/// A wait for a Var that occupies no thread: what async_wait is made of. Copies name the same wait. It takes its place
/// among the Var's tasks when it is started; GPU work is waited for without holding later tasks up.
class SLUICE_API PendingWait {
 public:
  /// Prepares to wait as Engine::wait(access) does. `observer` must live until it was told. Throws ValueError for an
  /// empty Var.
  PendingWait(Access access, WaitObserver& observer);
  PendingWait(const PendingWait& other) noexcept;
  PendingWait& operator=(PendingWait other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~PendingWait();

  /// To be called once, on one of the copies. `observer` may have been told before this returns.
  void start() const;
  /// Ends the wait now: tells `observer` of `error`. False if it was told already, or is being told.
  bool cancel(std::exception_ptr error) const noexcept;

 private:
  friend class detail::CoroutineControl;
  /// Until it is started: what will stand in the Var.
  detail::TaskNode* node() const noexcept;

  detail::WaitRecord* record_;
};

}  // namespace sluice
