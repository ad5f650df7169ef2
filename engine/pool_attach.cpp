// Users' threads that work for the pool: while they wait, and in turns with pushing.
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/team.h>

namespace sluice::detail {

namespace {
constexpr int k_attached_batch = 64;   // short tasks that an attached thread pushes before it runs as many
constexpr int k_attached_share = 256;  // long ones that it leaves to others
constexpr std::chrono::nanoseconds k_attached_look = std::chrono::milliseconds(1);
}  // namespace

bool PoolPolicy::attach() {
  ThisThread& here = this_thread();
  Lane* lane = here.pool == nullptr ? outside_lane() : nullptr;
  if (lane == nullptr)
    return false;
  auto* me = new Worker;
  me->lane = lane;
  lane->owner_runs.store(true);
  me->attached = true;
  me->random = Random(chaos_seed_ * 1000 + 500 + static_cast<std::uint64_t>(here.slot));
  here.pool = this;
  here.pool_worker = me;
  me->runner.store(Runner::here());
  const std::lock_guard hold(mutex_);
  me->next_attached = std::exchange(attached_, me);
  return true;
}

void PoolPolicy::detach() {
  ThisThread& here = this_thread();
  auto* me = static_cast<Worker*>(here.pool_worker);
  me->lane->owner_runs.store(false);
  if (me->lane->ring.size() > 0)
    announce(me->lane);  // what it would have run is for the workers now
  {
    const std::lock_guard hold(mutex_);
    Worker** link = &attached_;
    while (*link != me)
      link = &(*link)->next_attached;
    *link = me->next_attached;
  }
  delete me;
  here.pool = nullptr;
  here.pool_worker = nullptr;
}

bool PoolPolicy::works_here() const noexcept {
  return mine() != nullptr;
}

// An attached thread looks for work while it waits: no worker wakes it for that.
std::chrono::nanoseconds PoolPolicy::slice() const noexcept {
  const Worker* me = mine();
  return me != nullptr && me->attached && this_thread().task == nullptr ? k_attached_look : CpuPolicy::slice();
}

void PoolPolicy::visit_runners(const std::function<void(Runner)>& visit) {
  visit(TeamThread::runner());
  for (int i = 0; i < threads(); ++i)
    visit(all_[static_cast<std::size_t>(i)]->runner.load());
  const std::lock_guard hold(mutex_);
  for (const Worker* each = attached_; each != nullptr; each = each->next_attached)
    visit(each->runner.load());
}

// Short tasks are run in turns with pushing them, while they and their data are in the innermost cache. Long ones are
// for the workers: then it is better to go on pushing, as long as there is room.
void PoolPolicy::after_push() {
  const ThisThread& here = this_thread();
  if (here.pool != this || here.task != nullptr)
    return;
  Worker& me = *static_cast<Worker*>(here.pool_worker);
  if (!me.attached || ++me.pushes < k_attached_batch)
    return;
  if (me.pace >= k_long_task || long_tasks()) {
    if (me.lane->ring.size() >= k_attached_share)
      help(1);
    return;
  }
  me.pushes = 0;
  help(k_attached_batch);
}

int PoolPolicy::help(int limit) {
  Worker* me = mine();
  if (me == nullptr || !me->attached)
    return 0;
  int done = 0;
  while (done < limit) {
    TaskNode* task = pick(*me);
    if (task == nullptr)
      break;
    run_for(*me, task);
    ++done;
    if (me->pace >= k_long_task)
      break;
  }
  share_next(*me);
  return done;
}

}  // namespace sluice::detail
