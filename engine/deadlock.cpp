// Waits that could never end. Pushed tasks wait for earlier pushes only, so they cannot wait in a circle; a body that
// waits can close one: for what comes after its own task, or after another body that waits.
#include <unordered_map>
#include <vector>

#include <sluice/engine/detail/core.h>

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
  CycleSearch(const std::vector<Core::Blocked>& blocked, TaskNode* start) : blocked_(blocked), start_(start) {}

  /// The tasks on the way from `start` to what it waits for; empty if there is no way.
  std::vector<TaskNode*> run(const TaskNode* awaited) {
    open_.push_back(start_);
    came_from_[start_] = nullptr;
    while (!open_.empty()) {
      TaskNode* task = open_.back();
      open_.pop_back();
      if (task == awaited)
        return way_to(task);
      for (AccessNode& access : task->accesses())
        visit_after(access, task);
      for (const Core::Blocked& blocked : blocked_) {
        if (blocked.awaited == task)
          visit(blocked.task, task);
      }
    }
    return {};
  }

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
      for (; list != nullptr; list = list->next) {
        conflict = conflict || (behind && list->exclusive());
        if (behind && conflict)
          visit(list->task(), from);
        behind = behind || list == &access;
      }
    }
  }

  std::vector<TaskNode*> way_to(TaskNode* task) const {
    std::vector<TaskNode*> way;
    for (; task != nullptr; task = came_from_.at(task))
      way.insert(way.begin(), task);
    return way;
  }

  const std::vector<Core::Blocked>& blocked_;
  TaskNode* const start_;
  std::vector<TaskNode*> open_;
  std::unordered_map<TaskNode*, TaskNode*> came_from_;
};

void Core::check_cycle(TaskNode* task) {
  const std::lock_guard hold(blocked_mutex_);
  const TaskNode* awaited = nullptr;
  for (const Blocked& blocked : blocked_) {
    if (blocked.task == task)
      awaited = blocked.awaited;
  }
  std::vector<TaskNode*> way;
  halt_lists();
  try {
    if (awaited != nullptr && !awaited->finished())
      way = CycleSearch(blocked_, task).run(awaited);
  } catch (...) {  // out of memory: no answer this time
    way.clear();
  }
  std::string text;
  for (const TaskNode* step : way) {
    if (step->kind == TaskKind::body)
      text += message(text.empty() ? "" : ", before ", quoted(*step));
  }
  resume_lists();
  cycle_checks_.fetch_add(1);
  if (way.empty())
    return;
  std::erase_if(blocked_, [&](const Blocked& blocked) { return blocked.task == task; });
  throw Deadlock(message("wait: task \"", task->name, "\" waits for what comes after it: ", text));
}

}  // namespace sluice::detail
