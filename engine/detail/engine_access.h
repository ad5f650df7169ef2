#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include <sluice/engine/detail/at_once.h>
#include <sluice/engine/device.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/position.h>

namespace sluice::detail {

/// See EngineAccess::run_behind(). It lives until run() was called.
class WorkBehind {
 public:
  virtual void run() noexcept = 0;

 protected:
  ~WorkBehind() = default;

 private:
  friend class BehindBody;
  friend struct EngineAccess;
  bool admitted_ = false;  // by the engine, which then calls run()
};

/// The inner side of an Engine: what rooms need of it and users do not call.
/// storage frees memory by positions of GPU work and climbs down its ladder when memory runs out; reads of small arrays
/// learn from a kernel that it has run; parts of the engine (interop, regions, groups) reach its Core.
/// Included by .cpp files of the engine, of storage, of ndarray and of operator alone, which
/// tests/architecture/check_includes.py sees to; it is not installed.
struct EngineAccess {
  static Core& core(Engine& engine) noexcept { return *engine.core_; }

  /// Which task's body runs on this thread; null outside of them. To be compared, never looked into.
  static const void* body_here() noexcept;

  /// Runs body(queue) now, on this thread, and returns when it is over, if there is nothing that it would have to wait
  /// for; what it throws becomes the failure of what it makes. To everybody else it is a CPU task that was pushed here.
  /// False, and nothing was done, where that cannot be told or something stands before it: then push() is the way.
  template <class Body>
  static bool run_at_once(Engine& engine, const AtOnce& call, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    return run_at_once(engine, call, &body, [](void* at, Queue queue) { (*static_cast<Plain*>(at))(queue); });
  }
  static bool run_at_once(Engine& engine, const AtOnce& call, void* body, void (*run)(void* body, Queue queue));

  /// Registers what to do when memory of a device runs out: give back what is cached.
  static void on_memory_pressure(Engine& engine, std::function<void(Device)> relieve);
  /// Calls all that was registered.
  static void relieve_memory(Engine& engine, Device device);
  /// For a thread that is short of what tasks hold, memory say: blocks until some task has finished, 100 ms at most,
  /// some seconds while the process computes. True if one did. Runs some itself where the thread runs tasks. Inside
  /// tasks, which might be waited for, false at once.
  static bool await_task(Engine& engine);

  /// A number that every task which was to write `var` changes once it is over, also if it failed or was skipped;
  /// nothing while one is pushed and not over. What a thread pushed itself it sees.
  static std::optional<std::uint64_t> writes_done(const Var& var) noexcept;

  /// True once the GPU has passed all of `positions` (a hint: never asks the driver).
  static bool passed(const Engine& engine, const PositionSet& positions) noexcept;
  /// True for a position of a stream that copies between host and GPU.
  static bool on_copy_stream(const Engine& engine, Position position) noexcept;
  /// The last rung before OutOfMemory: blocks until the GPU has passed `positions`. Throws CudaError.
  static void wait_passed(Engine& engine, const PositionSet& positions);
  /// Told by who has learnt it from a kernel itself: the GPU has passed `position`. Whether what was read there has
  /// failed, a wait for the task says.
  static void note_completed(Engine& engine, Position position);

  /// Has work.run() called once the GPU has passed `pending`, or is lost: here and now where that is so and the thread
  /// is in none of the engine's own work, otherwise by a task that wait_all() covers. For RetireHooks that call what
  /// may use other engines. Never waits. False, and nothing is called, where the engine takes no tasks any more or
  /// there is no memory for one.
  static bool run_behind(Engine& engine, const PositionSet& pending, WorkBehind& work) noexcept;

  /// True between Engine::freeze(var) and unfreeze().
  static bool is_frozen(const Var& var) noexcept;
};

/// While it lives, what this thread pushes for others than who asked is in no group, and does not stop with the task in
/// whose body it was made; what runs on top of that body meanwhile is not concerned.
class ApartScope {
 public:
  ApartScope() noexcept;
  ApartScope(const ApartScope&) = delete;
  ApartScope& operator=(const ApartScope&) = delete;
  ~ApartScope();

  /// Is the thread in one that the task which runs there made?
  static bool here() noexcept;

 private:
  const ApartScope* before_;
  const void* task_;
};

}  // namespace sluice::detail
