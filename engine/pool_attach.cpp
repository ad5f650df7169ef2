// Users' threads that work for the pool: while they wait, and in turns with pushing.
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/sweep.h>
#include <sluice/engine/detail/team.h>

namespace sluice::detail {

namespace {
constexpr int k_attached_batch = 64;   // short tasks that an attached thread pushes before it runs as many
constexpr int k_attached_share = 256;  // long ones that it leaves to others
constexpr std::chrono::nanoseconds k_attached_look = std::chrono::milliseconds(1);
}  // namespace

bool PoolPolicy::attach() {
  ThisThread& here = this_thread();
  WorkQueue* queue = here.pool == nullptr ? outside_queue() : nullptr;
  if (queue == nullptr)
    return false;
  auto* me = new Worker;
  me->queue = queue;
  queue->owner_runs.store(true);
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
  me->queue->owner_runs.store(false);
  if (me->queue->ring.size() > 0)
    announce(me->queue);  // what it would have run is for the workers now
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

int PoolPolicy::worker_here() const noexcept {
  const Worker* me = mine();
  return me == nullptr || me->attached ? -1 : me->index;
}

bool PoolPolicy::works_here() const noexcept {
  return mine() != nullptr;
}

// An attached thread looks for work while it waits: no worker wakes it for that. Where there are too few of them
// somebody has to ask for more.
std::chrono::nanoseconds PoolPolicy::slice() const noexcept {
  const Worker* me = mine();
  const bool looks = me != nullptr && me->attached && this_thread().task == nullptr;
  return looks || short_of_threads_.load(std::memory_order_relaxed) ? k_attached_look : CpuPolicy::slice();
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
    if (me.queue->ring.size() >= k_attached_share)
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

void PoolPolicy::sweep() {
  for (List& list : lists_) {
    TaskNode* gone = nullptr;
    {
      const std::lock_guard hold(list.lock);
      int taken = 0;
      gone = take_finished(list.head, list.tail, taken);
      list.size.store(list.size.load(std::memory_order_relaxed) - taken, std::memory_order_release);
    }
    forget(gone);
  }
  const Worker* me = mine();
  for (std::uint64_t left = me == nullptr ? 0 : me->queue->ring.size(); left > 0; --left) {
    TaskNode* task = me->queue->ring.take();
    if (task == nullptr)
      break;
    if ((task->state.load(std::memory_order_acquire) & TaskNode::k_finished) != 0)
      Core::claim(task);
    else
      me->queue->ring.append(task);  // there is room where it lay
  }
}

// The workers have ended; queues of users' threads, attached or not, stay as they are.
void PoolPolicy::restart() {
  const std::lock_guard hold(mutex_);
  for (int i = 0; i < threads(); ++i)
    all_[static_cast<std::size_t>(i)].reset();
  threads_.store(0, std::memory_order_release);
  for (auto& place : outside_) {
    if (WorkQueue* queue = place.load())
      queue->server.store(nullptr, std::memory_order_relaxed);
  }
  sleepers_.store(workers_);
  searching_.store(0);
  attention_.store(0);
  running_.store(0);
  parked_ = wake_tokens_ = 0;
  watched_.store(false);
  pace_.store(k_pace_unknown, std::memory_order_relaxed);
  short_of_threads_.store(false, std::memory_order_relaxed);
  stopping_ = false;
}

// All that has retired, and still lies in a queue since it was run from elsewhere.
void PoolPolicy::forget_claimed() {
  for (auto* lists : {&lists_, &raised_}) {
    for (List& list : *lists) {
      while (TaskNode* task = take_from(list))
        Core::claim(task);
    }
  }
  const auto empty = [](WorkQueue& queue) {
    for (TaskNode* task = nullptr; queue.ring.steal(&task, 1) == 1;)
      Core::claim(task);
  };
  for (int i = 0; i < threads(); ++i)
    empty(*all_[static_cast<std::size_t>(i)]->queue);
  for (auto& place : outside_) {
    if (WorkQueue* queue = place.load())
      empty(*queue);
  }
}

}  // namespace sluice::detail
