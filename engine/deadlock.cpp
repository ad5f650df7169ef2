// Waits that could never end. Pushed tasks wait for earlier pushes only, so they cannot wait in a circle; a body that
// waits can close one: for what comes after its own task, or after another body that waits.
#include <chrono>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/coroutine_control.h>
#include <sluice/engine/detail/group_state.h>

namespace sluice::detail {

namespace {

std::string quoted(const TaskNode& task) {
  return message('"', task.name, "\" (", describe(task.site()), ")");
}

// Whether `access` still waits in one of its Var's lists. Nobody changes them meanwhile.
bool queued(const AccessNode& access) {
  for (const AccessNode* list : {access.var->run, access.var->inbox_head}) {
    for (; list != nullptr; list = list->next) {
      if (list == &access)
        return true;
    }
  }
  return false;
}

}  // namespace

/// Walks from a task to all that come after it, with the engine's lists at rest.
class CycleSearch {
 public:
  explicit CycleSearch(const BlockedList& blocked, std::size_t most = ~std::size_t{0}) : most_(most) {
    std::unordered_set<const TaskBelow*> seen;  // bodies that wait on top of one another have them in common
    for (const Blocked* each = blocked.first(); each != nullptr; each = each->next) {
      after_.emplace(each->awaited, each->task);
      TaskNode* top = each->task;
      for (const TaskBelow* below = each->below; below != nullptr; below = below->next) {
        if (below->task == nullptr || below->task == top || below->task->core != top->core)
          continue;                        // another engine's lists are not at rest
        after_.emplace(top, below->task);  // it goes on when this one has ended
        top = below->task;
        if (!seen.insert(below).second)
          break;
      }
    }
  }

  /// The tasks on the way from `start` to what it waits for; empty if there is no way.
  std::vector<TaskNode*> run(TaskNode* start, const TaskNode* awaited) {
    open_.assign(1, start);
    came_from_.clear();
    came_from_[start] = nullptr;
    while (!open_.empty() && visited_ <= most_) {
      TaskNode* task = open_.back();
      open_.pop_back();
      ++visited_;
      if (task == awaited)
        return way_to(task);
      const auto [first, last] = after_.equal_range(task);
      for (auto waiter = first; waiter != last; ++waiter)
        visit(waiter->second, task);
      for (AccessNode& access : task->accesses()) {
        if (const AccessNode* queued = task->commutes ? visit_run(access, task) : &access)
          visit_after(*queued, task);
      }
      if (const GroupState* group = task->group()) {
        if (TaskNode* holder = group->holder())
          visit(holder, task);
      }
    }
    return {};
  }

  /// Steps that all runs together have taken; they give up beyond `most`.
  std::size_t visited() const noexcept { return visited_; }

 private:
  void visit(TaskNode* task, TaskNode* from) {
    if (came_from_.emplace(task, from).second)
      open_.push_back(task);
  }

  // What waits in the Var for `access` to end: all behind it, from the first that excludes it.
  void visit_after(const AccessNode& access, TaskNode* from) {
    const VarCore* var = access.var;
    bool behind = !queued(access);
    bool conflict = access.exclusive();
    for (const AccessNode* list : {var->run, var->inbox_head}) {
      for (; list != nullptr; list = list->next, ++visited_) {
        conflict = conflict || (behind && list->exclusive());
        if (behind && conflict)
          visit(list->task(), from);
        behind = behind || list == &access;
      }
    }
  }

  // What waits in a run for `access` to end; returns what stands in the Var for it.
  const AccessNode* visit_run(const AccessNode& access, TaskNode* from) {
    const auto visit_all = [&](const CommuteRun& run) {
      visit_members(run, [&](TaskNode* member) { visit(member, from), ++visited_; });
    };
    if (const CommuteRun* own = Commuting::run_of(*from)) {
      visit_all(*own);
      return &access;
    }
    if (access.mode() != AccessMode::commute)
      return &access;
    const CommuteMember& member = Commuting::member_of(access);
    if (member.run == nullptr)
      return nullptr;
    if (member.run->holder == member.set)
      visit_all(*member.run);
    return member.run->access;
  }

  std::vector<TaskNode*> way_to(TaskNode* task) const {
    std::vector<TaskNode*> way;
    for (; task != nullptr; task = came_from_.at(task))
      way.insert(way.begin(), task);
    return way;
  }

  std::unordered_multimap<const TaskNode*, TaskNode*> after_;
  std::vector<TaskNode*> open_;
  std::unordered_map<TaskNode*, TaskNode*> came_from_;
  const std::size_t most_;
  std::size_t visited_ = 0;
};

namespace {

// In words; empty if `blocked` waits in no circle. With the lists at rest.
std::string circle_of(CycleSearch& search, const Blocked& blocked) {
  std::string text;
  if (blocked.awaited->finished())
    return text;
  for (const TaskNode* step : search.run(blocked.task, blocked.awaited)) {
    if (step->kind == TaskKind::body)
      text += message(text.empty() ? "" : ", before ", quoted(*step));
  }
  return text;
}

constexpr std::size_t k_most_visited = 200'000;  // steps along lists: some milliseconds

// A coroutine in a circle, and the circle in words. Where there are too many for one look, the next goes on behind it.
Blocked* find_hopeless(const BlockedList& all, std::string& text) {
  CycleSearch search(all, k_most_visited);
  for (Blocked* each = all.first(); each != nullptr; each = each->next) {
    if (each->coroutine == nullptr || std::exchange(each->looked_at, true))
      continue;
    text = circle_of(search, *each);
    if (!text.empty())
      return each;
    if (search.visited() > k_most_visited)
      return nullptr;
  }
  for (Blocked* each = all.first(); each != nullptr; each = each->next)
    each->looked_at = false;
  return nullptr;
}

}  // namespace

// The engine stands still meanwhile, and who waits looks again and again: hence a tenth of the time at most. The lists
// are halted before the lock is taken: whoever is inside them may want the lock. False if it was too early for a look.
template <class Check>
bool Core::search_cycles(Check check) {
  const auto began = std::chrono::steady_clock::now();
  if (began < next_cycle_check_.load(std::memory_order_relaxed))
    return false;
  halt_lists();
  {
    const std::lock_guard hold(blocked_mutex_);
    try {
      check();
    } catch (...) {  // out of memory: no answer this time
    }
  }
  resume_lists();
  cycle_checks_.fetch_add(1);
  const auto ended = std::chrono::steady_clock::now();
  next_cycle_check_.store(ended + 9 * (ended - began), std::memory_order_relaxed);
  return true;
}

bool Core::check_blocked(Blocked& blocked, bool for_long) {
  const char* const name = blocked.task->name;
  std::string circle;
  const bool searched = search_cycles([&] {
    CycleSearch search(blocked_);
    circle = circle_of(search, blocked);
    if (!circle.empty())  // others that come through this one have a future again
      blocked_.remove(blocked);
  });
  require<Deadlock>(
      circle.empty(), [&] { return message("wait: task \"", name, "\" waits for what comes after it: ", circle); });
  const int stuck = for_long ? cpu_->all_blocked() : 0;
  if (stuck == 0)
    return searched;
  // Whether it is what lies ready that the wait needs is not asked: nothing else would run it here.
  require<Deadlock>(stuck != CpuPolicy::k_out_of_stack, [&] {
    return message(
        "wait: task \"",
        name,
        "\" waits where the stack of the one thread that could run what lies ready is used up by bodies that wait in "
        "one another");
  });
  if (TaskNode* ready_one = take_needed(blocked.awaited)) {
    drop(ready_one, TaskNode::k_twice);
    throw Deadlock(
        message("wait: task \"", name, "\" waits for what no thread is left to run: ", stuck, " bodies wait"));
  }
  return searched;
}

// -- Coroutines: they sleep without a thread that could look, so whoever waits looks for them --

void Core::suspends(Blocked& blocked) {
  suspended_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard hold(blocked_mutex_);
  blocked_.add(blocked);
}

void Core::resumes(Blocked& blocked) noexcept {
  const std::lock_guard hold(blocked_mutex_);
  if (blocked.listed)
    blocked_.remove(blocked);
  suspended_.fetch_sub(1, std::memory_order_relaxed);
}

void Core::check_suspended() noexcept {
  if (suspended_.load(std::memory_order_relaxed) == 0)
    return;
  try {
    std::optional<PendingWait> hopeless;
    std::exception_ptr error;
    search_cycles([&] {
      std::string circle;
      Blocked* const found = find_hopeless(blocked_, circle);
      if (found == nullptr)
        return;
      error = std::make_exception_ptr(
          Deadlock(message("async_wait: task \"", found->task->name, "\" waits for what comes after it: ", circle)));
      hopeless = found->coroutine->awaited();
      if (hopeless.has_value())  // others in the circle have a future again: whoever looks now leaves them alone
        blocked_.remove(*found);
    });
    if (hopeless.has_value())
      hopeless->cancel(error);
  } catch (...) {  // out of memory: another look comes
  }
}

}  // namespace sluice::detail
