#pragma once

#include <exception>
#include <stop_token>
#include <utility>

#include <sluice/engine/export.h>

namespace sluice {

class Queue;
namespace detail {
class CompletionControl;
}

/// Ends a task that its body does not end: what the body started elsewhere, a transfer, a device, another library, says
/// when it is done. Given out by Queue::complete_later(); any thread may end the task with it, once, before the body
/// has returned or long after. No thread of the engine waits meanwhile, and the task keeps its Vars.
///
///     engine.push({.name = "fetch", .access = {write(page)}}, [&](Queue queue) {
///       client.get(url, [done = queue.complete_later(), &text](Reply reply) mutable {
///         text = reply.text();
///         done.complete();
///       });
///     });
///
/// Waits, wait_all() and stop() count the task until then. If it is dropped first, the task fails with
/// AbandonedCompletion. Who ends the task does what any finished task brings with it: on that thread GPU tasks after it
/// may be issued, and under the policies without workers CPU tasks may run, so it holds no lock that tasks take. In a
/// forked child that of a task of the parent ends nothing.
class SLUICE_API TaskCompletion {
 public:
  TaskCompletion() = default;
  TaskCompletion(TaskCompletion&& other) noexcept : control_(std::exchange(other.control_, nullptr)) {}
  TaskCompletion& operator=(TaskCompletion&& other) noexcept {
    std::swap(control_, other.control_);
    return *this;
  }
  ~TaskCompletion();

  /// True until it has ended its task.
  explicit operator bool() const noexcept { return control_ != nullptr; }
  /// The task succeeds, if its body did. Throws ValueError if this is empty.
  void complete();
  /// The task fails with `error`, as if its body had thrown it; if that did throw, with what it threw. Throws
  /// ValueError if this is empty, or `error` is; std::bad_alloc, and then the task has not ended.
  void fail(std::exception_ptr error);
  /// Told once the task is asked to end early: by TaskHandle::cancel(), its stop token, its group or
  /// Engine::stop(Stop::cancel). Whoever heeds that fails the task with Cancelled, or completes it. A
  /// std::stop_callback on it may call complete() or fail() itself. Throws ValueError if this is empty.
  std::stop_token stop_token() const;

 private:
  friend class Queue;
  explicit TaskCompletion(detail::CompletionControl& control) noexcept : control_(&control) {}

  detail::CompletionControl* control_ = nullptr;
};

}  // namespace sluice
