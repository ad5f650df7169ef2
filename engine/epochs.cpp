// The books of wait_all and back-pressure: each thread counts what it pushes and finishes for itself.
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/locate_push.h>

namespace sluice::detail {

void Core::enter_epoch(TaskNode* task) {
  const ThisThread& here = this_thread();
  task->epoch = epoch_.load(std::memory_order_relaxed) & 1;
  counts(here).entered[task->epoch].add(here.owns_slot());
}

void Core::admit(TaskNode* task) {
  enter_epoch(task);
  // Counted first, asked second: stop() sets the flag first and counts second, so no task slips between.
  light_fence(stopped_);
  if (stopped_.load(std::memory_order_relaxed) == 0 || this_thread().core == this) [[likely]]
    return;
  const int epoch = task->epoch;
  if (GroupState* group = task->group()) {
    group->leave();
    task->extras()->group = nullptr;
    group->release();
  }
  discard(task);
  const ThisThread& here = this_thread();
  counts(here).refused.add(here.owns_slot());
  leave_epoch(epoch);
  EngineStopped error(message("push: task \"", task->name, "\" came after the engine stopped"));  // its handle keeps it
  locate_push(error, task->site());
  throw error;
}

void Core::discard(TaskNode* task) noexcept {
  task->body.reset();
  task->state.fetch_or(TaskNode::k_started | TaskNode::k_finished, std::memory_order_acq_rel);  // its handle is left
}

void Core::leave_epoch(int epoch) {
  // Counting and looking for a waiter pairs with announcing the wait and looking at the counts: one of the two sees.
  ThisThread& here = this_thread();
  counts(here).left[static_cast<std::size_t>(epoch)].add(here.owns_slot());
  light_fence(drain_waiters_);
  if (drain_waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  // A worker tells them when it runs out of work; until then they look by themselves.
  if (here.pool == nullptr)
    let_waiters_look();
}

void Core::let_waiters_look() {
  if (drain_waiters_.load() == 0)
    return;
  const std::lock_guard hold(drained_mutex_);
  drained_.notify_all();
}

// Those who left are summed first: if as many had entered by the time those are summed, nobody was inside between.
bool Core::epoch_empty(std::uint8_t epoch) const noexcept {
  std::uint64_t left = 0;
  std::uint64_t entered = 0;
  for (const CountShard& shard : counts_)
    left += shard.left[epoch].get();
  for (const CountShard& shard : counts_)
    entered += shard.entered[epoch].get();
  return left == entered;
}

EngineCounters Core::counters() const noexcept {
  EngineCounters sum;
  std::uint64_t refused = 0;
  std::int64_t spare_bytes = 0;
  // Pushes are summed last, so that no task is seen to retire that was not pushed.
  for (const CountShard& shard : counts_) {
    sum.skipped += shard.skipped.get();
    sum.failed += shard.failed.get();
    sum.waits += shard.waits.get();
    refused += shard.refused.get();
    spare_bytes += shard.spare_bytes.load(std::memory_order_relaxed);
  }
  for (const CountShard& shard : counts_)
    sum.retired += shard.left[0].get() + shard.left[1].get();
  for (const CountShard& shard : counts_)
    sum.pushed += shard.entered[0].get() + shard.entered[1].get();
  auto without = [](std::uint64_t all, std::uint64_t part) { return all > part ? all - part : 0; };
  sum.retired = without(sum.retired, refused);  // a task is counted skipped or refused just before it retires
  sum.pushed -= refused;
  sum.run = without(sum.retired, sum.skipped);
  in_flight_.add_counters(sum, spare_bytes);
  cpu_->add_counters(sum);
  if (gpu() != nullptr)
    gpu()->add_counters(sum);
  return sum;
}

void Core::count_wait() noexcept {
  const ThisThread& here = this_thread();
  counts(here).waits.add(here.owns_slot());
}

}  // namespace sluice::detail
