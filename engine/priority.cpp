// Urgency is passed on: what an urgent task waits for becomes as urgent (priority inheritance: Sha, Rajkumar and
// Lehoczky, 1990). Queued tasks ahead of it at once, some of them; the others when they are granted; a task that lies
// ready is put into a second queue, and runs from whichever is emptied first.
#include <array>
#include <functional>
#include <mutex>

#include <sluice/engine/detail/commute_run.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr int k_most_raised = 32;  // by one push

bool more_urgent(Priority a, Priority b) noexcept {
  return static_cast<int>(a) < static_cast<int>(b);
}

// True if that made it more urgent.
bool lower_to(std::atomic<Priority>& priority, Priority wanted) noexcept {
  Priority held = priority.load(std::memory_order_relaxed);
  while (more_urgent(wanted, held)) {
    if (priority.compare_exchange_weak(held, wanted, std::memory_order_seq_cst))
      return true;
  }
  return false;
}

}  // namespace

// What a push has made more urgent, kept (k_twice) until it was put where its new class is found.
struct Core::Raised {
  std::array<TaskNode*, k_most_raised> tasks;
  int count = 0;

  bool full() const noexcept { return count == k_most_raised; }

  void spread(Core& core, Priority wanted);
};

// Step by step away from `task`. Under a Var's lock tasks are only marked: a heavy fence, another queue's lock or a
// worker that has to be woken come afterwards, once a step.
void Core::inherit_priority(TaskNode* task) {
  Raised raised;
  const Priority wanted = task->priority.load(std::memory_order_relaxed);
  inherit_accesses(*task, wanted, raised);
  raised.spread(*this, wanted);
}

void Core::Raised::spread(Core& core, Priority wanted) {
  for (int done = 0; done < count;) {
    heavy_fence();  // against submit(): it sees the new class, or we see that it was there
    bool rest_for_gpus = false;
    for (const int end = count; done < end; ++done) {
      TaskNode* each = tasks[static_cast<std::size_t>(done)];
      const bool lies_ready = each->submitted.load(std::memory_order_acquire);
      if (lies_ready && each->device.is_cpu() && core.cpu_->submit_again(each))
        continue;
      rest_for_gpus = rest_for_gpus || (lies_ready && each->device.is_gpu());
      core.inherit_accesses(*each, wanted, *this);  // it waits elsewhere too
      drop(each, TaskNode::k_twice);
    }
    if (rest_for_gpus)
      core.gpu()->sort_by_class();
  }
}

TaskNode* Core::raise_one(TaskNode* task, Priority wanted) {
  if (!priorities_.load(std::memory_order_relaxed))
    return nullptr;
  Raised raised;
  raise(task, wanted, raised);
  return raised.count == 0 ? nullptr : raised.tasks[0];
}

void Core::raise_on(TaskNode* kept, Priority wanted) {
  Raised raised;
  raised.tasks[static_cast<std::size_t>(raised.count++)] = kept;
  raised.spread(*this, wanted);
}

void Core::inherit_from_runs(TaskNode& task) noexcept {
  if (!priorities_.load(std::memory_order_relaxed))
    return;
  for (const AccessNode& access : task.accesses()) {
    if (access.mode() == AccessMode::commute)
      lower_to(task.priority, Commuting::member_of(access).run->writer->priority.load(std::memory_order_relaxed));
  }
}

void Core::inherit_accesses(TaskNode& task, Priority wanted, Raised& raised) {
  for (AccessNode& access : task.accesses()) {
    if (access.gated() || raised.full())
      continue;
    const std::lock_guard hold(access.var->lock);
    if (access.var->core != this)  // the task is over and the Var another's by now
      continue;
    AccessNode* queued = &access;
    if (task.commutes) [[unlikely]]
      queued = Commuting::place_of(task, access, [&](TaskNode* other) { raise(other, wanted, raised); });
    if (queued != nullptr)
      inherit_var(*queued, wanted, raised);
  }
}

// What `access` waits for in its Var, whose lock is held: what lies in the inbox cannot be granted meanwhile.
void Core::inherit_var(AccessNode& access, Priority wanted, Raised& raised) {
  VarCore* var = access.var;
  const VarMode mode = var->mode.load(std::memory_order_relaxed);
  if (mode == VarMode::idle || mode == VarMode::reading_open)
    return;
  const std::uint64_t first = var->first_holder.load(std::memory_order_relaxed);
  const std::uint64_t next = var->next_holder.load(std::memory_order_relaxed);
  const bool writing = mode == VarMode::writing;
  const std::uint64_t own = tagged(access.task());  // not the address alone, at which another task may have lain
  if (writing && (first == own || next == own))
    return;
  // Readers do not wait for readers beside them: only for what stands before the last writer ahead.
  bool found = false;
  AccessNode* end = nullptr;
  for (AccessNode* node = var->inbox_head; node != nullptr && !found; node = node->next) {
    found = node == &access;
    if (!found && (access.exclusive() || node->exclusive()))
      end = node->next;
  }
  if (writing) {
    raise_holder(first, wanted, raised);
    raise_holder(next, wanted, raised);
  } else if (found) {
    const auto raise_reader = [&](TaskNode* reader) { raise(reader, wanted, raised); };
    cpu_->visit_readers(var, wanted, std::cref(raise_reader));  // by reference: no call of the heap
  }
  if (!found)
    return;
  if (!access.urges()) {
    access.set_urges();
    var->urgers.fetch_add(1, std::memory_order_seq_cst);
  }
  lower_to(var->urgency, wanted);  // afterwards: who comes in meanwhile then does not end what it has not seen
  for (AccessNode* ahead = end == nullptr ? nullptr : var->inbox_head; ahead != end; ahead = ahead->next)
    raise(ahead->task(), wanted, raised);
}

// Of a task that may be over and its node another's by now, the tag tells.
void Core::raise_holder(std::uint64_t tag, Priority wanted, Raised& raised) {
  std::uint32_t state = 0;
  if (TaskNode* task = task_of(tag, state))
    raise(task, wanted, raised);
}

void Core::raise(TaskNode* task, Priority wanted, Raised& raised) {
  std::uint32_t state = task->state.load(std::memory_order_acquire);
  constexpr std::uint32_t k_too_late = TaskNode::k_started | TaskNode::k_finished | TaskNode::k_twice;
  if (raised.full() || (state & k_too_late) != 0 || !lower_to(task->priority, wanted))
    return;
  // Marked so, it is kept. The exchange fails if the node has changed hands since, for then its generation has.
  if (!task->state.compare_exchange_strong(state, state | TaskNode::k_twice, std::memory_order_acq_rel))
    return;
  if (task->core == this)
    raised.tasks[static_cast<std::size_t>(raised.count++)] = task;
  else  // the Var, at which we look late, is another engine's by now
    drop(task, TaskNode::k_twice);
}

void Core::came_next(VarCore* var, AccessNode& access) noexcept {
  var->next_holder.store(tagged(access.task()), std::memory_order_relaxed);
  // Its turn comes soon, and its lines are still where they were written. An access that is in place, as most are,
  // stands in the second line of its task.
  if (const auto* next = reinterpret_cast<const char*>(access.next)) {
    for (int at : {-64, 0, 64})
      __builtin_prefetch(next + at, 1);
  }
  if (priorities_.load(std::memory_order_relaxed)) [[unlikely]]
    inherit(var, &access, access.next);
}

// Those who come in take over the urgency of who waits behind them. It is over when the last one that urged comes in:
// one that was made urgent itself says nothing of those behind it.
void Core::inherit(VarCore* var, AccessNode* first, const AccessNode* end) noexcept {
  if (var->urgers.load(std::memory_order_relaxed) == 0)
    return;
  std::uint16_t came = 0;
  for (const AccessNode* node = first; node != end; node = node->next)
    came = static_cast<std::uint16_t>(came + (node->urges() ? 1 : 0));
  if (came > 0 && var->urgers.fetch_sub(came, std::memory_order_relaxed) == came)
    return var->urgency.store(Priority::background, std::memory_order_relaxed);
  const Priority wanted = var->urgency.load(std::memory_order_relaxed);
  for (const AccessNode* node = first; node != end; node = node->next)
    lower_to(node->task()->priority, wanted);
}

}  // namespace sluice::detail
