// How a task is made from what the user wrote, enters its Vars, and what the protocol (detail/var_protocol.h) tells.
#include <algorithm>
#include <memory>
#include <mutex>

#include <sluice/engine/detail/clock.h>
#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/locate_push.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

TestFaults& test_faults() noexcept {
  static TestFaults faults;
  return faults;
}

namespace {

using Protocol = VarProtocol<Core, VarCore, AccessNode>;
using TaskPool = NodePool<TaskNode, &TaskNode::next>;

// Sorted by age, each Var once: write includes read, and out beside a read is a write (the old value is used).
int sort_and_merge(AccessNode* accesses, int count) {
  if (count <= 8) {
    for (int i = 1; i < count; ++i) {
      if (!accesses[i].var->comes_before(*accesses[i - 1].var)) [[likely]]  // as a rule: results are the youngest
        continue;
      const AccessNode moved = accesses[i];
      int at = i;
      for (; at > 0 && moved.var->comes_before(*accesses[at - 1].var); --at)
        accesses[at] = accesses[at - 1];
      accesses[at] = moved;
    }
  } else {
    std::sort(accesses, accesses + count, [](const AccessNode& a, const AccessNode& b) {
      return a.var->comes_before(*b.var);
    });
  }
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    if (kept > 0 && accesses[kept - 1].var == accesses[i].var) {
      if (accesses[kept - 1].mode() != accesses[i].mode())
        accesses[kept - 1].set_mode(AccessMode::write);
    } else {
      if (kept != i)
        accesses[kept] = accesses[i];
      ++kept;
    }
  }
  return kept;
}

void drop_planted_edges(TaskNode& task, int every) {
  static std::atomic<int> pushes{1};
  if (task.kind == TaskKind::body && task.access_count > 0 && !task.commutes && pushes.fetch_add(1) % every == 0)
    --task.access_count;
}

void check_device(const Task& task, Core& core) {
  if (task.device.is_cpu()) [[likely]]
    return;
  require<DeviceError>(task.device.is_gpu(), [&] {
    return message("push: task \"", task.name.c_str(), "\" wants ", task.device, "; an engine has CPUs and GPUs");
  });
  const int there = core.need_gpu() == nullptr ? 0 : num_gpus();
  require<DeviceError>(task.device.index >= 0 && task.device.index < there, [&] {
    return message("push: task \"", task.name.c_str(), "\" wants ", task.device, ", there are ", there, " GPU(s)");
  });
}

// True if one commutes.
bool check_task(const Task& task, Core& core) {
  for (const Access& access : task.access)
    __builtin_prefetch(access.var, 1);
  bool commutes = false;
  for (const Access& access : task.access) {
    commutes |= access.mode == AccessMode::commute;
    require(
        access.var != nullptr, [&] { return message("push: task \"", task.name.c_str(), "\" names an empty Var"); });
    require(access.var->core == &core, [&] {
      return message("push: task \"", task.name.c_str(), "\" names a Var of another engine");
    });
    require(access.mode == AccessMode::read || !access.var->frozen.load(std::memory_order_relaxed), [&] {
      return message("push: task \"", task.name.c_str(), "\" writes a frozen Var");
    });
  }
  require(task.threads >= 1, [&] {
    return message("push: task \"", task.name.c_str(), "\" asks for ", task.threads, " threads");
  });
  require(task.access.size() <= 0xffff, [&] {
    return message(
        "push: task \"", task.name.c_str(), "\" names ", task.access.size(), " Vars, at most 65535 are allowed");
  });
  check_device(task, core);
  return commutes;
}

bool check_task(const Task& task, Core& core, SourceLocation site) {
  try {
    return check_task(task, core);
  } catch (Error& error) {
    locate_push(error, site);
    throw;
  }
}

// Throws std::bad_alloc, and then has given the block back.
TaskNode* take_node(AccessNode* block, std::size_t count) {
  try {
    return TaskPool::take();
  } catch (...) {
    if (block != nullptr)
      give_block(block, count * sizeof(AccessNode));
    throw;
  }
}

int enter_specially(Core& core, TaskNode& task) {
  if (task.commutes)
    return Commuting::enter(core, task);
  const std::span<AccessNode> accesses = task.accesses();
  return Protocol::enter_locked(
      core, accesses.data(), static_cast<int>(accesses.size()), [&task] { Tracer::queued(task); });
}

}  // namespace

void Core::prepare_for_pushes(const Task& task, TaskKind kind) {
  if (era_ != 0)
    enter_era(task);
  if (kind == TaskKind::body && task.device.is_cpu() && cpu_->need_thread() && era_ == 0)
    unready_.store(false, std::memory_order_relaxed);
}

// Its own token, or that of the task that pushes it; and the group.
void Core::inherit_from_pusher(const Task& task, TaskNode& node) {
  const ThisThread& here = this_thread();
  const bool own = task.stop.stop_possible();
  const TaskExtras* const above = here.task == nullptr || here.task->core != this ? nullptr : here.task->extras();
  if (!own && above == nullptr && here.group_scope == nullptr) [[likely]]
    return;
  const bool apart = ApartScope::here();
  if (own || (!apart && above != nullptr && above->stop.stop_possible()))
    node.need_extras().stop = own ? task.stop : above->stop;
  GroupState* const group = node.kind == TaskKind::body && !apart ? GroupState::of_this_thread(*this) : nullptr;
  if (group != nullptr)
    group->enter(node);
}

TaskNode* Core::make_task(const Task& task, TaskKind kind, Closure&& body, SourceLocation site) {
  if (unready_.load(std::memory_order_relaxed)) [[unlikely]]
    prepare_for_pushes(task, kind);
  const bool commutes = check_task(task, *this, site);
  const auto count = task.access.size();
  const Origin* const origin = site.origin == 0 ? nullptr : Origin::of(site);
  const Origin::Place* const place = origin == nullptr ? nullptr : &origin->place(site.file);
  AccessNode* block = nullptr;
  if (count > TaskNode::k_inline_accesses) [[unlikely]]
    block = static_cast<AccessNode*>(take_block(count * sizeof(AccessNode)));
  TaskNode* node = take_node(block, count);
  const std::uint32_t generation = TaskNode::generation(node->state.load(std::memory_order_relaxed)) + 1;
  node->state.store((generation << TaskNode::k_generation_shift) | TaskNode::k_handle, std::memory_order_release);
  TaskMarks marks{
      .blocked_accesses = block != nullptr,
      .capturable = task.capturable,
      .legacy_stream = task.legacy_stream,
      .on_failed_input = task.on_failed_input,
      .kind = kind,
      .stream = task.stream,
      .flush_denormals = task.denormals == Denormals::flush && may_flush_};
  const int line = std::clamp(site.line, 0, TaskMarks::k_last_line);
  marks.line = place == nullptr ? line : ~line;
  static_cast<TaskMarks&>(*node) = marks;
  node->core = this;
  node->name = task.name.c_str();
  if (place == nullptr) {
    node->file = site.file;
  } else {
    node->place = place;
  }
  node->device = task.device;
  node->threads = static_cast<std::uint16_t>(std::min(task.threads, 0xffff));
  node->era = era_;
  node->priority.store(task.priority, std::memory_order_relaxed);
  node->submitted.store(false, std::memory_order_relaxed);
  if (block != nullptr)
    node->access_block = {block, count};
  try {
    if (task.name.counted()) [[unlikely]]
      keep_name(task.name, *node);
    if ((task.bytes | task.work) != 0 && tracing() != nullptr) [[unlikely]]
      keep_estimates(task, *node);
    if (commutes) [[unlikely]]
      Commuting::prepare(task.access, *node);
    inherit_from_pusher(task, *node);
  } catch (...) {  // out of memory
    recycle(node);
    throw;
  }
  node->body = std::move(body);
  AccessNode* accesses = block == nullptr ? node->accesses_in_place : block;
  for (std::size_t i = 0; i < count; ++i)
    accesses[i].set(task.access[i].var, node, task.access[i].mode);
  node->access_count =
      static_cast<std::uint16_t>(count < 2 ? count : sort_and_merge(accesses, static_cast<int>(count)));
  if (commutes) [[unlikely]]
    Commuting::enlist(*node);
  return node;
}

void Core::keep_estimates(const Task& task, TaskNode& node) noexcept {
  try {
    TaskExtras& extras = node.need_extras();
    extras.bytes = task.bytes;
    extras.work = task.work;
  } catch (const std::bad_alloc&) {  // the trace does without them
  }
}

void Core::keep_name(const TaskName& name, TaskNode& node) {
  if (node.device.is_cpu()) {
    node.need_extras().name = name;
    return;
  }
  const std::lock_guard hold(gpu_names_mutex_);
  node.name = gpu_names_.emplace(name.c_str()).first->c_str();
}

void Core::push(TaskNode* task) {
  if (task->kind == TaskKind::body)
    task->push_number = clock_ticks();  // numbers pushes without a shared counter
  if (Tracer* tracer = tracing()) [[unlikely]]
    tracer->pushed(*task);
  if (const int every = test_faults().drop_every_nth_edge.load(std::memory_order_relaxed); every > 0) [[unlikely]]
    drop_planted_edges(*task, every);
  const int count = task->access_count;
  task->waiting.store(count + 1, std::memory_order_relaxed);
  AccessNode* accesses = task->accesses().data();
  const ThisThread& here = this_thread();
  enter_lists(here);
  const int granted = task->traced || task->commutes
                          ? enter_specially(*this, *task)
                          : Protocol::enter(*this, accesses, count, static_cast<unsigned>(here.slot));
  // With all of them granted here nobody else counts them.
  if (task->priority.load(std::memory_order_relaxed) != Priority::normal) [[unlikely]]
    priorities_.store(true, std::memory_order_relaxed);
  if ((granted < count || task->commutes) && priorities_.load(std::memory_order_relaxed)) [[unlikely]]
    inherit_priority(task);
  leave_lists(here);  // first: what becomes ready may be issued here, and wait for who is kept out of the lists
  if (granted == count || task->waiting.fetch_sub(granted + 1, std::memory_order_acq_rel) == granted + 1)
    ready(task);
}

void Core::came_together(VarCore* var, AccessNode* first) noexcept {
  if (priorities_.load(std::memory_order_relaxed)) [[unlikely]]
    inherit(var, first, nullptr);
}

void Core::leave(AccessNode& access) {
  if (access.mode() == AccessMode::commute) [[unlikely]]
    return Commuting::leave(access);
  Protocol::leave(*this, access, static_cast<unsigned>(this_thread().slot));
}

void Core::grant(AccessNode& access) {
  TaskNode* task = access.task();
  if (task->waiting.fetch_sub(1, std::memory_order_acq_rel) == 1)
    ready(task);
}

void Core::recycle(TaskNode* task) noexcept {
  if (TaskExtras* extras = task->extras()) [[unlikely]] {
    task->has_extras.store(false, std::memory_order_relaxed);
    if (extras != &no_memory_extras()) [[likely]] {
      drop_coroutine(*extras);
      if (CompletionControl* completion = extras->completion.load(std::memory_order_relaxed))
        completion->drop();
      if (GroupState* group = extras->group)
        group->release();
      if (extras->commutes_on != nullptr)
        Commuting::discard(extras->commutes_on);
      if (extras->commute_run != nullptr)
        Commuting::discard(extras->commute_run);
      extras->~TaskExtras();
      give_block(extras, sizeof(TaskExtras));
    }
  }
  if (task->blocked_accesses) [[unlikely]] {
    give_block(task->access_block.first, task->access_block.room * sizeof(AccessNode));
    std::uninitialized_value_construct_n(task->accesses_in_place, TaskNode::k_inline_accesses);
  }
  TaskPool::give(task);
}

}  // namespace sluice::detail
