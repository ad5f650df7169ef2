// A worker of the pool that has nothing of its own: which ring it takes from, and when short tasks are left where they
// are.
#include <algorithm>

#include <sluice/engine/detail/clock.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>

namespace sluice::detail {

namespace {
constexpr int k_most = 32;                   // tasks for one look
constexpr std::uint64_t k_many = 256;        // ready tasks that are worth sharing out, however short
constexpr std::uint64_t k_unserved = 50000;  // clock ticks, some 20 us
constexpr std::uint64_t k_stuck = 300000;    // clock ticks, some 100 us
}  // namespace

TaskNode* PoolPolicy::steal(Worker& me, bool however_short) {
  const int workers = threads();
  const int count = workers + outside_count_.load(std::memory_order_acquire);
  const int start = static_cast<int>(me.random.below(static_cast<std::uint64_t>(std::max(count, 1))));
  for (int i = 0; i < count; ++i) {
    const int at = (start + i) % count;
    WorkQueue* victim = at < workers ? all_[static_cast<std::size_t>(at)]->queue
                                     : outside_[static_cast<std::size_t>(at - workers)].load(std::memory_order_acquire);
    if (victim == nullptr || victim == me.queue)
      continue;
    if (!however_short && !worth_stealing(me, *victim))
      continue;
    if (TaskNode* task = steal_from(me, *victim, however_short ? 1 : k_most))
      return task;
  }
  return nullptr;
}

// One to run, the rest for the own ring, which is empty.
TaskNode* PoolPolicy::steal_from(Worker& me, WorkQueue& victim, int most) {
  TaskNode* stolen[k_most];
  const int got = victim.ring.steal(stolen, most);
  if (got > 0 && !victim.owner_runs.load(std::memory_order_relaxed)) {
    victim.server.store(&me, std::memory_order_relaxed);
    victim.served_at.store(clock_ticks(), std::memory_order_relaxed);
  }
  for (int i = 1; i < got; ++i)
    me.queue->ring.append(stolen[i]);
  if (victim.owner_runs.load(std::memory_order_relaxed))  // others push for us to take
    count(&Counters::stolen, static_cast<std::uint64_t>(got));
  return got == 0 ? nullptr : stolen[0];
}

// Short tasks stay with the thread that runs them, their owner or one worker, unless they are many or it has not come
// to any for a while: run elsewhere they would cost more than they take.
bool PoolPolicy::worth_stealing(const Worker& me, WorkQueue& victim) const noexcept {
  const std::uint64_t size = victim.ring.size();
  if (size == 0)
    return false;
  if (size >= k_many || long_tasks())
    return true;
  const std::uint64_t now = clock_ticks();
  if (!victim.owner_runs.load(std::memory_order_relaxed)) {
    const Worker* server = victim.server.load(std::memory_order_relaxed);
    return server == &me || now - victim.served_at.load(std::memory_order_relaxed) > k_unserved;
  }
  const std::uint64_t head = victim.ring.head();
  if (victim.seen_head.exchange(head, std::memory_order_relaxed) == head)
    return now - victim.seen_at.load(std::memory_order_relaxed) > k_stuck;
  victim.seen_at.store(now, std::memory_order_relaxed);
  return false;
}

}  // namespace sluice::detail
