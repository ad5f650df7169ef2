#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/engine/task.h>

namespace sluice {

namespace detail {
class CoroutineControl;
}
class GroupWait;
class TaskGroup;

/// `co_await`-ed in a coroutine body: suspends the task until Engine::wait(access) would return, and throws what that
/// would throw; Cancelled if the task was cancelled meanwhile. No thread waits.
class SLUICE_API AsyncWait {
 public:
  explicit AsyncWait(Access access) noexcept : access_(access) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    return suspend(*waiting.promise().control_);
  }
  void await_resume() const;

 private:
  bool suspend(detail::CoroutineControl& control) noexcept;

  Access access_;
  detail::CoroutineControl* control_ = nullptr;
};

/// What a task body returns that may wait without occupying a thread:
///
///     engine.push({.name = "mean", .access = {write(result)}}, [&]() -> Coroutine {
///       co_await read(input);                // or co_await input, or co_await engine.async_wait(input)
///       result_value = mean(input_values);
///     });
///
/// The body runs on the engine's CPU workers, each stretch between two awaits perhaps on another one, with the task's
/// priority. The task holds its accesses until the body ends, also while it waits; awaiting a Var does not grant it.
/// What the lambda captures lives as long as the body. An exception that leaves the body fails the task like that of a
/// plain body. Awaiting what the task itself holds throws Deadlock. Nothing that belongs to a thread (a lock, an
/// EngineScope) may live across a co_await. A GPU task, and one with `threads` above 1, cannot have such a body: it
/// fails with UnsupportedError. TaskHandle::cancel() and the task's stop token make the await throw Cancelled in which
/// the body is suspended, else its next one; Stop::cancel its next one. Each does so once: a body may catch that and
/// clean up.
class SLUICE_API Coroutine {
 public:
  class SLUICE_API promise_type {
   public:
    Coroutine get_return_object() noexcept {
      return Coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    auto final_suspend() const noexcept {
      struct Ends {
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<promise_type> ended) const noexcept { ended.promise().end(); }
        void await_resume() const noexcept {}
      };
      return Ends();
    }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept;

    AsyncWait await_transform(AsyncWait wait) const noexcept { return wait; }
    AsyncWait await_transform(Access access) const noexcept { return AsyncWait(access); }
    AsyncWait await_transform(const Var& var) const noexcept { return AsyncWait(read(var)); }
    GroupWait await_transform(const TaskGroup& group) const;  // task_group.h

   private:
    friend class AsyncWait;
    friend class detail::CoroutineControl;
    void end() noexcept;

    detail::CoroutineControl* control_ = nullptr;
  };

  Coroutine(Coroutine&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Coroutine& operator=(Coroutine&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Coroutine() {
    if (frame_)
      frame_.destroy();
  }

 private:
  friend class detail::CoroutineControl;
  explicit Coroutine(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

}  // namespace sluice
