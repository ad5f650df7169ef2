// How a task enters its Vars and leaves them. All Vars of a task are locked in order of id while its accesses are
// appended, so all queues agree with one total order of pushes and nothing can wait in a circle; leaving needs one
// lock at a time. Reads of a Var share, writes exclude, both first come, first served.
#include <algorithm>
#include <chrono>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

TestFaults& test_faults() noexcept {
  static TestFaults faults;
  return faults;
}

namespace {

// Numbers pushes in order of time without a shared counter: a clock that all cores agree on.
std::uint64_t moment() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Sorted by Var, each Var once: write includes read, and out beside a read is a write (the old value is used).
template <class Accesses>
void sort_and_merge(Accesses& accesses) {
  std::sort(
      accesses.begin(), accesses.end(), [](const AccessNode& a, const AccessNode& b) { return a.var->id < b.var->id; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    if (kept > 0 && accesses[kept - 1].var == accesses[i].var) {
      AccessMode& mode = accesses[kept - 1].mode;
      if (mode != accesses[i].mode)
        mode = AccessMode::write;
    } else {
      accesses[kept++] = accesses[i];
    }
  }
  accesses.resize(kept);
}

void drop_planted_edges(TaskNode& task) {
  static std::atomic<int> pushes{1};
  const int every = test_faults().drop_every_nth_edge.load(std::memory_order_relaxed);
  if (every <= 0 || task.kind != TaskKind::body)
    return;
  if (!task.accesses.empty() && pushes.fetch_add(1) % every == 0)
    task.accesses.pop_back();
}

void check_device(const Task& task, Core& core) {
  if (task.device.is_cpu())
    return;
  const int there = core.need_gpu() == nullptr ? 0 : num_gpus();
  require<DeviceError>(task.device.index >= 0 && task.device.index < there, [&] {
    return message("push: task \"", task.name.c_str(), "\" wants ", task.device, ", there are ", there, " GPU(s)");
  });
}

}  // namespace

TaskNode* Core::make_task(const Task& task, TaskKind kind, Closure&& body, SourceLocation site) {
  for (const Access& access : task.access) {
    require(
        access.var != nullptr, [&] { return message("push: task \"", task.name.c_str(), "\" names an empty Var"); });
    require(access.var->core == this, [&] {
      return message("push: task \"", task.name.c_str(), "\" names a Var of another engine");
    });
  }
  check_device(task, *this);
  TaskNode* node = NodePool<TaskNode, &TaskNode::next>::take();
  node->next = nullptr;
  node->references.store(2, std::memory_order_relaxed);  // the run and the handle
  node->state.store(TaskState::queued, std::memory_order_relaxed);
  node->kind = kind;
  node->priority = task.priority;
  node->on_failed_input = task.on_failed_input;
  node->stream = task.stream;
  node->legacy_stream = task.legacy_stream;
  node->threads = task.threads;
  node->device = task.device;
  node->core = this;
  node->name = task.name.c_str();
  node->site = site;
  node->body = std::move(body);
  node->accesses.resize(task.access.size());
  for (std::size_t i = 0; i < task.access.size(); ++i) {
    node->accesses[i] = {task.access[i].var, nullptr, nullptr, task.access[i].mode};
  }
  sort_and_merge(node->accesses);
  return node;
}

bool Core::append(AccessNode* access) {
  VarCore* var = access->var;
  if (var->mode == VarMode::idle) {
    var->mode = access->exclusive() ? VarMode::writing : VarMode::reading_open;
    if (!access->exclusive())
      var->readers.store(1, std::memory_order_relaxed);
    return true;
  }
  if (var->mode == VarMode::reading_open && !access->exclusive()) {
    var->readers.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (var->mode == VarMode::reading_open)
    var->mode = VarMode::reading_closed;
  access->next = nullptr;
  (var->inbox_tail == nullptr ? var->inbox_head : var->inbox_tail->next) = access;
  var->inbox_tail = access;
  return false;
}

void Core::push(TaskNode* task) {
  if (task->kind == TaskKind::body)
    task->push_number = moment();
  drop_planted_edges(*task);
  auto& accesses = task->accesses;
  for (AccessNode& access : accesses)
    access.task = task;
  task->waiting.store(static_cast<int>(accesses.size()) + 1, std::memory_order_relaxed);
  int granted = 1;
  for (AccessNode& access : accesses)
    access.var->lock.lock();
  for (AccessNode& access : accesses)
    granted += append(&access) ? 1 : 0;
  for (std::size_t i = accesses.size(); i-- > 0;)
    accesses[i].var->lock.unlock();
  if (task->waiting.fetch_sub(granted, std::memory_order_acq_rel) == granted)
    ready(task);
}

void Core::grant(AccessNode* access) {
  TaskNode* task = access->task;
  if (task->waiting.fetch_sub(1, std::memory_order_acq_rel) == 1)
    ready(task);
}

void Core::advance(VarCore* var) {
  for (;;) {
    if (var->run == nullptr) {
      var->lock.lock();
      var->run = std::exchange(var->inbox_head, nullptr);
      var->inbox_tail = nullptr;
      if (var->run == nullptr)
        return set_idle(var);
      var->lock.unlock();
    }
    AccessNode* head = var->run;
    if (head->exclusive()) {  // the right to advance passes to the writer
      var->run = head->next;
      return grant(head);
    }
    AccessNode* last = head;
    int count = 1;
    for (; last->next != nullptr && !last->next->exclusive(); last = last->next)
      ++count;
    var->lock.lock();
    if (last->next == nullptr && var->inbox_head != nullptr) {  // perhaps more reads to let in together
      last->next = std::exchange(var->inbox_head, nullptr);
      var->inbox_tail = nullptr;
      var->lock.unlock();
      continue;
    }
    var->run = std::exchange(last->next, nullptr);
    var->readers.store(count, std::memory_order_relaxed);
    var->mode = var->run == nullptr ? VarMode::reading_open : VarMode::reading_closed;
    var->lock.unlock();
    while (head != nullptr) {
      AccessNode* next = head->next;  // a granted node may be gone at once
      grant(head);
      head = next;
    }
    return;
  }
}

void Core::finish_read(VarCore* var) {
  if (var->readers.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  var->lock.lock();
  if (var->readers.load(std::memory_order_acquire) == 0) {
    if (var->mode == VarMode::reading_open)
      return set_idle(var);
    if (var->mode == VarMode::reading_closed) {
      var->mode = VarMode::writing;
      var->lock.unlock();
      return advance(var);
    }
  }
  var->lock.unlock();  // a reader joined meanwhile, or another last reader got here first
}

}  // namespace sluice::detail
