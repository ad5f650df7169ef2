#pragma once

#include <coroutine>
#include <stop_token>
#include <utility>

#include <sluice/engine/coroutine.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice {

namespace detail {
class GroupState;
}

struct TaskGroupOptions {
  /// At most so many of the group's CPU tasks are begun and not finished at a time; 0: as many as there are workers. A
  /// body that waits gives its place to another meanwhile, and goes on when its wait is over, also where as many run
  /// again: so for a moment more than that many may run, of coroutines that are resumed as of bodies on their stacks.
  int limit = 0;
};

/// Tasks that are waited for, and cancelled, together: those that are pushed with push(), or in a GroupScope of it, and
/// all that their bodies push in turn, coroutines and GPU tasks included. A group that is made inside another one, in a
/// GroupScope or in a task that is a member, is part of that one.
///
///     TaskGroup group(engine);
///     for (Tile& tile : tiles)
///       group.push({.name = "tile", .access = {write(tile.var)}}, [&] { refine(tile, engine); });  // pushes more
///     group.wait();
///
/// Members may wait for each other. A group may be used again after a wait, and dropped before its tasks have finished,
/// also while others wait. Any thread may use it.
class SLUICE_API TaskGroup {
 public:
  /// Throws ValueError for a negative limit.
  explicit TaskGroup(Engine& engine, const TaskGroupOptions& options = {});
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup();

  /// Engine::push of the group's engine, for a task of the group.
  template <TaskBody Body>
  TaskHandle push(const Task& task, Body&& body, SourceLocation site = SourceLocation::current());

  /// Blocks until the group has no unfinished task, GPU work included: those that were pushed before this call, what
  /// they push, and perhaps some that others push meanwhile. Throws the earliest failure of a body of the group, once;
  /// the others are left to wait_all(). Inside a task it runs members meanwhile, where they are what it waits for.
  /// Throws Deadlock in a member, which would wait for itself, and where members wait for what comes after the caller.
  /// In a coroutine body: `co_await group`, which occupies no thread and throws the same.
  void wait();
  /// True if the group has no unfinished task. Never blocks; GPU tasks may still be on their way.
  bool done() const noexcept;

  /// Asks all members to end early, also those pushed from now on: as if the group's stop token were that of each task.
  void cancel();
  std::stop_token stop_token() const;

 private:
  friend class GroupScope;
  friend class GroupWait;
  Engine& engine() const;

  detail::GroupState* state_;
};

/// While it lives, what this thread pushes belongs to the group; inside a body, what that body pushes itself, but not
/// what ranges of its parallel_for push on other threads.
class SLUICE_API GroupScope {
 public:
  explicit GroupScope(const TaskGroup& group) noexcept;
  GroupScope(const GroupScope&) = delete;
  GroupScope& operator=(const GroupScope&) = delete;
  ~GroupScope();

 private:
  friend class detail::GroupState;
  detail::GroupState* group_;
  const void* task_;  // in whose body it was made
  const GroupScope* before_;
};

/// What `co_await group` waits with.
class SLUICE_API GroupWait {
 public:
  explicit GroupWait(const TaskGroup& group);
  GroupWait(const GroupWait&) = delete;
  GroupWait& operator=(const GroupWait&) = delete;
  ~GroupWait();
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    return wait_.await_suspend(waiting);
  }
  void await_resume() const;

 private:
  detail::GroupState* group_;
  AsyncWait wait_;
};

template <TaskBody Body>
TaskHandle TaskGroup::push(const Task& task, Body&& body, SourceLocation site) {
  const GroupScope scope(*this);
  return engine().push(task, std::forward<Body>(body), site);
}

inline GroupWait Coroutine::promise_type::await_transform(const TaskGroup& group) const {
  return GroupWait(group);
}

}  // namespace sluice
