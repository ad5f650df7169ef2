// A wait in a task runs what it waits for on its own stack, so that recursion costs a call and no thread. Only what the
// wait cannot end without: anything else might need what the waiting body holds.
#include <cstdint>
#include <mutex>

#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/in_lists.h>
#include <sluice/engine/detail/stack_left.h>

namespace sluice::detail {

namespace {

constexpr int k_depth = 8;           // of tasks that wait for each other, followed to one that is ready
constexpr int k_most_followed = 64;  // by one look

// Kept until its entry in a ready queue has come up. False if it was taken, or its node is another task's by now; or if
// it is a coroutine that was suspended: where that lies is not known.
bool keep(TaskNode* task, std::uint32_t state) noexcept {
  constexpr std::uint32_t k_too_late = TaskNode::k_started | TaskNode::k_finished | TaskNode::k_twice;
  if ((state & k_too_late) != 0 ||
      !task->state.compare_exchange_strong(state, state | TaskNode::k_twice, std::memory_order_acq_rel))
    return false;
  if (task->coroutine() == nullptr)
    return true;
  Core::drop(task, TaskNode::k_twice);
  return false;
}

// In the policy's queues; or in its group's, which has no place for it, and may be run here without one.
bool lies_ready(const TaskNode& task) noexcept {
  if (task.device.is_gpu())
    return false;
  return task.submitted.load(std::memory_order_acquire) ||
         (task.wants_place() && task.core->cpu().runs_ahead() && task.group()->may_run_here());
}

}  // namespace

// How far a look goes: `left` counts down over all of its ways.
struct Core::Follow {
  int depth;
  int* left;

  TaskNode* take_from_run(Core& core, const TaskNode& writer);
};

TaskNode* Core::take_needed(TaskNode* task) {
  int left = k_most_followed;
  return take_needed(task, task->state.load(std::memory_order_acquire), {k_depth, &left});
}

bool Core::run_awaited(TaskNode* awaited) {
  if (!stack_is_left())
    return false;
  TaskNode* task = take_needed(awaited);
  if (task == nullptr)
    return false;
  GroupState* const group = task->group();
  if (group != nullptr && group->limited() && !group->take_ahead(*task) && !task->submitted.load()) {
    drop(task, TaskNode::k_twice);  // it is being given a place, or others took the last one
    return false;
  }
  const OnTop on_top(this_thread());
  return cpu_->run_ahead(task);
}

// A task that lies ready and that `task` waits for, or it itself; kept. Null if there is none, or none is seen.
TaskNode* Core::take_needed(TaskNode* task, std::uint32_t state, Follow follow) {
  if ((state & (TaskNode::k_started | TaskNode::k_finished)) != 0 || task->core != this)
    return nullptr;
  if (lies_ready(*task))
    return keep(task, state) ? task : nullptr;
  if (follow.depth == 0)
    return nullptr;
  if (GroupState* group = task->extras() == nullptr ? nullptr : task->extras()->awaited_group) {
    if (TaskNode* needed = take_member(*group, {follow.depth - 1, follow.left}))
      return needed;
  }
  if (Commuting::run_of(*task) != nullptr) {
    if (TaskNode* needed = Follow{follow.depth - 1, follow.left}.take_from_run(*this, *task))
      return needed;
  }
  for (const AccessNode& access : task->accesses()) {
    if (access.gated())
      continue;
    for (const bool came_first : {true, false}) {
      if (TaskNode* needed = take_holder(access, came_first, {follow.depth - 1, follow.left}))
        return needed;
    }
  }
  return nullptr;
}

// The same for a group's members. One that does not lie ready yet is looked at again last.
TaskNode* Core::take_member(GroupState& group, Follow follow) {
  std::uint32_t state = 0;
  while (--*follow.left >= 0) {
    TaskNode* const member = group.keep_youngest(&keep, state);
    if (member == nullptr || lies_ready(*member))
      return member;
    TaskNode* const needed = take_needed(member, state, follow);
    group.note_young(tagged(member), true);
    drop(member, TaskNode::k_twice);
    if (needed != nullptr)
      return needed;
  }
  return nullptr;
}

// The same for a run of commuting tasks, by its writer: whose turn it is, or one that something else keeps from it.
TaskNode* Core::Follow::take_from_run(Core& core, const TaskNode& writer) {
  VarCore* const var = writer.accesses().front().var;
  TaskNode* member = nullptr;
  std::uint32_t state = 0;
  {
    const InLists in_lists(core);
    if (--*left < 0 || !var->lock.try_lock())
      return nullptr;
    const std::lock_guard hold(var->lock, std::adopt_lock);
    const CommuteRun& run = *Commuting::run_of(writer);
    if (run.left == 0)
      return nullptr;
    const CommuteMember* const first = run.early.first;
    member = run.holder != nullptr ? run.holder->task : first == nullptr ? nullptr : first->set->task;
    if (member == nullptr)
      return nullptr;
    state = member->state.load(std::memory_order_acquire);
    if (!keep(member, state))
      return nullptr;
  }
  if (lies_ready(*member))
    return member;
  TaskNode* needed = core.take_needed(member, state, *this);
  drop(member, TaskNode::k_twice);
  return needed;
}

// The same for a writer that `access` waits for in its Var. Readers are not followed: a Var does not know them.
TaskNode* Core::take_holder(const AccessNode& access, bool came_first, Follow follow) {
  VarCore* var = access.var;
  TaskNode* holder = nullptr;
  std::uint32_t state = 0;
  {
    const InLists in_lists(*this);
    if (--*follow.left < 0 || !var->lock.try_lock())
      return nullptr;
    const std::lock_guard hold(var->lock, std::adopt_lock);
    // A task that has not begun stands in its Vars; of another, this may be somebody else's Var by now.
    const bool begun = (access.task()->state.load(std::memory_order_acquire) & TaskNode::k_started) != 0;
    if (begun || var->core != this || var->mode.load(std::memory_order_relaxed) != VarMode::writing)
      return nullptr;
    const std::uint64_t tag = (came_first ? var->first_holder : var->next_holder).load(std::memory_order_relaxed);
    holder = task_of(tag, state);
    if (holder == nullptr || holder == access.task() || !keep(holder, state))
      return nullptr;
  }
  if (lies_ready(*holder))
    return holder;
  TaskNode* needed = take_needed(holder, state, follow);
  drop(holder, TaskNode::k_twice);
  return needed;
}

}  // namespace sluice::detail
