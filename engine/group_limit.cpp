// At most so many of a group's tasks at a time: who has a place, who waits for one.
#include <atomic>
#include <utility>

#include <sluice/engine/detail/group_hold.h>

namespace sluice::detail {

namespace {

bool give_place_of(TaskNode& task) noexcept {
  GroupState* const group = task.group();
  return group != nullptr && group->limited() && group->give_place(task);
}

}  // namespace

void GroupState::submit(TaskNode* task) {
  {
    const Hold hold(*this);
    if (places_taken_ >= limit_) {
      task->next = nullptr;
      (last_ == nullptr ? next_ : last_->next) = task;
      last_ = task;
      task->extras()->wants_place.store(true, std::memory_order_release);
      return;
    }
    ++places_taken_;
    task->extras()->has_place = true;
  }
  core_.cpu().submit(task);
}

bool GroupState::give_place(TaskNode& task) noexcept {
  if (!std::atomic_ref(task.extras()->has_place).exchange(false))
    return false;
  TaskNode* next = nullptr;
  TaskNode* taken = nullptr;
  {
    const Hold hold(*this);
    if (places_taken_ <= limit_)
      next = take_next(taken);
    if (next == nullptr)
      --places_taken_;
  }
  while (taken != nullptr)  // whoever finds it there sees that it has begun, and drops it
    core_.cpu().submit(std::exchange(taken, taken->next));
  if (next != nullptr)
    core_.cpu().submit(next);
  return true;
}

// The eldest that wants a place, with one; those before it that were run ahead. With the mutex held.
TaskNode* GroupState::take_next(TaskNode*& taken) noexcept {
  while (TaskNode* const task = next_) {
    next_ = std::exchange(task->next, nullptr);
    if (next_ == nullptr)
      last_ = nullptr;
    if (task->extras()->wants_place.exchange(false)) {
      task->extras()->has_place = true;
      return task;
    }
    task->next = std::exchange(taken, task);
  }
  return nullptr;
}

// A member with a place is the task of this thread, or one below it: it waits, or is just about to.
bool GroupState::waits_here() const noexcept {
  const ThisThread& here = this_thread();
  const auto has_place = [this](const TaskNode* task) {
    return task != nullptr && task->group() == this && std::atomic_ref(task->extras()->has_place).load();
  };
  if (has_place(here.task))
    return true;
  for (const TaskBelow* below = here.below; below != nullptr; below = below->next) {
    if (has_place(below->task))
      return true;
  }
  return false;
}

bool GroupState::may_run_here() noexcept {
  {
    const Hold hold(*this);
    if (places_taken_ < limit_)
      return true;
  }
  return waits_here();
}

bool GroupState::take_ahead(TaskNode& task) noexcept {
  const bool on_top = waits_here();
  const Hold hold(*this);
  if ((places_taken_ >= limit_ && !on_top) || !task.extras()->wants_place.exchange(false))
    return false;
  ++places_taken_;
  task.extras()->has_place = true;
  return true;
}

void GroupState::take_place(TaskNode& task) noexcept {
  const Hold hold(*this);
  ++places_taken_;
  std::atomic_ref(task.extras()->has_place).store(true);
}

GivenPlaces::GivenPlaces(TaskNode& task) noexcept : task_(give_place_of(task) ? &task : nullptr) {
  // What lies below one that was looked at before was, too.
  for (TaskBelow* below = this_thread().below; below != nullptr && below->looked_at_by == nullptr;
       below = below->next) {
    below->looked_at_by = this;
    below->gave_place = below->task != nullptr && give_place_of(*below->task);
  }
}

GivenPlaces::~GivenPlaces() {
  if (task_ != nullptr)
    task_->group()->take_place(*task_);
  for (TaskBelow* below = this_thread().below; below != nullptr && below->looked_at_by == this; below = below->next) {
    if (std::exchange(below->gave_place, false))
      below->task->group()->take_place(*below->task);
    below->looked_at_by = nullptr;
  }
}

}  // namespace sluice::detail
