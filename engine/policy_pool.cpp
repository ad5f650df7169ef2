// The pool, seen from outside its workers: tasks come in, bodies block, libraries bring teams, loops ask for help.
#include <algorithm>
#include <chrono>
#include <functional>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/sweep.h>
#include <sluice/engine/detail/team.h>

namespace sluice::detail {

namespace {

constexpr auto k_rest_limit = std::chrono::milliseconds(1);

}  // namespace

PoolPolicy::PoolPolicy(Core& core, const EngineOptions& options, int workers, bool chaos)
    : core_(core),
      workers_(workers),
      thread_name_(options.name),
      cores_(options.cores),
      chaos_(chaos),
      chaos_seed_(options.chaos_seed) {
  for (List& list : raised_)
    list.link = &TaskNode::next_boosted;
  sleepers_.store(workers_);  // workers that are not made yet count as asleep
}

PoolPolicy::~PoolPolicy() {
  stop();
  for (auto& queue : outside_)
    delete queue.load();
}

void PoolPolicy::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
    attention_.fetch_add(1);
    wake_.notify_all();
    rested_.notify_all();
  }
  for (int i = 0; i < threads(); ++i) {
    if (all_[static_cast<std::size_t>(i)]->thread.joinable())
      all_[static_cast<std::size_t>(i)]->thread.join();
  }
  forget_claimed();
}

void PoolPolicy::count(Count Counters::*what, std::uint64_t by) noexcept {
  const ThisThread& here = this_thread();
  (counters_[static_cast<std::size_t>(here.slot)].*what).add(here.owns_slot(), by);
}

void PoolPolicy::add_counters(EngineCounters& sum) const noexcept {
  for (const Counters& counters : counters_) {
    sum.run_next += counters.run_next.get();
    sum.stolen += counters.stolen.get();
    sum.overflowed += counters.overflowed.get();
    sum.parked += counters.parked.get();
    sum.run_ahead += counters.run_ahead.get();
  }
}

// -- Work comes in --

PoolPolicy::Worker* PoolPolicy::mine() const noexcept {
  const ThisThread& here = this_thread();
  return here.pool == this ? static_cast<Worker*>(here.pool_worker) : nullptr;
}

void PoolPolicy::append(List& list, TaskNode* task) {
  task->*list.link = nullptr;
  const std::lock_guard hold(list.lock);
  (list.tail == nullptr ? list.head : list.tail->*list.link) = task;
  list.tail = task;
  list.size.store(list.size.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

TaskNode* PoolPolicy::take_from(List& list) {
  if (list.size.load(std::memory_order_acquire) == 0)
    return nullptr;
  const std::lock_guard hold(list.lock);
  TaskNode* task = list.head;
  if (task == nullptr)
    return nullptr;
  list.head = task->*list.link;
  if (list.head == nullptr)
    list.tail = nullptr;
  list.size.store(list.size.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  return task;
}

bool PoolPolicy::submit_again(TaskNode* task) noexcept {
  append(raised_[static_cast<std::size_t>(task->priority.load(std::memory_order_relaxed))], task);
  announce(nullptr);
  return true;
}

// Rings are left out: what lies there is not held by a lock while we look, and they are short.
void PoolPolicy::visit_readers(const VarCore* var, Priority wanted, const std::function<void(TaskNode*)>& visit) {
  constexpr int k_limit = 256;
  for (std::size_t i = static_cast<std::size_t>(wanted) + 1; i < k_classes; ++i) {
    const std::lock_guard hold(lists_[i].lock);
    int looks = 0;
    for (TaskNode* task = lists_[i].head; task != nullptr && looks < k_limit; task = task->next, ++looks) {
      for (const AccessNode& access : task->accesses()) {
        if (access.var == var)
          visit(task);
      }
    }
  }
}

void PoolPolicy::submit(TaskNode* task) noexcept {
  task->submitted.store(true, std::memory_order_release);
  light_fence(task->submitted_fence());  // against raise(): one of the two sees the other
  const Priority priority = task->priority.load(std::memory_order_relaxed);
  if (priority != Priority::normal) {
    append(lists_[static_cast<std::size_t>(priority)], task);
    return announce(nullptr);
  }
  const ThisThread& here = this_thread();
  Worker* me = here.pool == this ? static_cast<Worker*>(here.pool_worker) : nullptr;
  if (chaos_ && me != nullptr && me->random.below(4) == 0) [[unlikely]] {
    append(lists_[static_cast<std::size_t>(priority)], task);
    return announce(nullptr);
  }
  if (me != nullptr && me->next == nullptr && me->running && here.task == nullptr && !here.in_parallel) {
    me->next = task;  // this worker has just finished a task and comes to it at once: nobody need be told
    count(&Counters::run_next);
    return;
  }
  WorkQueue* queue = me != nullptr ? me->queue : outside_queue();
  if (queue != nullptr && queue->ring.append(task))
    return announce(queue);
  if (queue != nullptr)
    count(&Counters::overflowed);
  append(lists_[static_cast<std::size_t>(Priority::normal)], task);
  announce(nullptr);
}

// A thread that is none of ours and has a slot for itself owns a queue in every pool that it pushes to.
PoolPolicy::WorkQueue* PoolPolicy::outside_queue() noexcept {
  const ThisThread& here = this_thread();
  if (!here.owns_slot())
    return nullptr;
  auto& place = outside_[static_cast<std::size_t>(here.slot)];
  WorkQueue* queue = place.load(std::memory_order_acquire);
  if (queue != nullptr) [[likely]]
    return queue;
  queue = new (std::nothrow) WorkQueue;
  place.store(queue, std::memory_order_release);
  int count = outside_count_.load();
  while (count <= here.slot && !outside_count_.compare_exchange_weak(count, here.slot + 1)) {
  }
  return queue;
}

// A searcher will find the work, and wakes another when it does; only when nobody searches is a sleeper woken here.
void PoolPolicy::announce(const WorkQueue* queue) {
  light_fence(sleepers_);
  if (sleepers_.load(std::memory_order_relaxed) == 0 || searching_.load(std::memory_order_relaxed) > 0) [[likely]]
    return;
  // Waking takes microseconds, and tasks of a few hundred nanoseconds are best left to the thread that has them in
  // its cache, as long as somebody looks now and then whether it still runs them.
  const bool cared_for = queue != nullptr && queue->owner_runs.load(std::memory_order_relaxed);
  if ((cared_for || running_.load(std::memory_order_relaxed) > 0) && watched_.load(std::memory_order_relaxed) &&
      !long_tasks())
    return;
  const std::lock_guard hold(mutex_);
  wake(1);
}

bool PoolPolicy::long_tasks() const noexcept {
  return pace_.load(std::memory_order_relaxed) >= k_long_task;
}

bool PoolPolicy::run_ahead(TaskNode* task) {
  if (!Core::claim_ahead(task))
    return false;
  count(&Counters::run_ahead);
  run_claimed(task);
  int listed = 0;
  for (const List& list : lists_)
    listed += list.size.load(std::memory_order_relaxed);
  if (run_ahead_.fetch_add(1, std::memory_order_relaxed) >= std::max(k_sweep, listed)) {
    run_ahead_.store(0, std::memory_order_relaxed);
    sweep();
  }
  return true;
}

void PoolPolicy::run_claimed(TaskNode* task) {
  TeamThread* team = nullptr;
  if (task->threads > 1 && workers_ > 1) {
    const FloatMode mode = core_.thread_mode();
    if (TeamThread::instance().try_acquire(task->flush_denormals ? mode.flushing() : mode))
      team = &TeamThread::instance();
  }
  const int granted = team == nullptr ? 1 : reserve_team(task->threads);
  if (granted == 1) {
    if (team != nullptr)
      team->release();
    core_.run_on_cpu(task, 1);
    return;
  }
  const auto run = [&] { core_.run_on_cpu(task, granted); };
  team->run(std::cref(run));  // by reference: no call of the heap
  team->release();
  const std::lock_guard hold(mutex_);
  reserved_ -= granted - 1;
  rested_.notify_all();
  wake(granted - 1);
}

// Asks other workers to rest after what they run now, for a moment; takes the permits that are free by then.
int PoolPolicy::reserve_team(int threads) {
  std::unique_lock hold(mutex_);
  const int wanted = std::min(threads, workers_) - 1;
  reserved_ += wanted;
  ++resting_waiters_;
  attention_.fetch_add(1);
  rested_.wait_for(hold, k_rest_limit, [&] { return running_ + reserved_ <= workers_; });
  attention_.fetch_sub(1);
  --resting_waiters_;
  const int got = std::clamp(workers_ - running_ - (reserved_ - wanted), 0, wanted);
  reserved_ -= wanted - got;
  if (got < wanted)
    wake(wanted - got);
  return got + 1;
}

// -- Blocking bodies --

int PoolPolicy::all_blocked() {
  const std::lock_guard hold(mutex_);
  const bool no_more = threads() == k_max_threads || short_of_threads_.load(std::memory_order_relaxed);
  const bool stuck = no_more && running_ == 0 && resuming_ == 0 && anything_left();
  return stuck ? blocked_ : 0;
}

void PoolPolicy::before_block() {
  Worker* me = mine();
  if (me != nullptr)
    give_away_next(*me);  // nobody else sees it there
  if (me != nullptr && me->attached)
    return;  // holds no permit
  const std::lock_guard hold(mutex_);
  ++blocked_;
  sleepers_.fetch_add(1);  // a replacement may be made
  --running_;
  if (resting_waiters_ > 0)
    rested_.notify_all();
  wake(1);
}

void PoolPolicy::after_block() {
  if (const Worker* me = mine(); me != nullptr && me->attached)
    return;
  std::unique_lock hold(mutex_);
  ++resting_waiters_;
  ++resuming_;
  attention_.fetch_add(1);
  rested_.wait(hold, [&] { return running_ + reserved_ < workers_; });
  attention_.fetch_sub(1);
  --resuming_;
  --resting_waiters_;
  --blocked_;
  sleepers_.fetch_sub(1);
  ++running_;
}

// Puts what was to run next where thieves find it; it may well come back here.
void PoolPolicy::share_next(Worker& me) {
  if (me.next == nullptr)
    return;
  if (!me.queue->ring.append(me.next))
    return give_away_next(me);
  me.next = nullptr;
  announce(me.queue);
}

// The same where this thread will not come back to its ring for long.
void PoolPolicy::give_away_next(Worker& me) {
  TaskNode* task = std::exchange(me.next, nullptr);
  if (task == nullptr)
    return;
  append(lists_[static_cast<std::size_t>(Priority::normal)], task);
  announce(nullptr);
}

// -- parallel_for --

void PoolPolicy::Job::work() noexcept {
  ThisThread& here = this_thread();
  const LoopScope loop(here, caller);
  const HelperMode helper(here.mode, mode);
  for (;;) {
    const std::int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= n)
      break;
    try {
      run(context, begin, std::min(begin + chunk, n));
    } catch (...) {
      next.store(n, std::memory_order_relaxed);
      const std::lock_guard hold(error_mutex);
      if (error == nullptr)
        error = std::current_exception();
    }
  }
}

void PoolPolicy::parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) {
  if (workers_ == 1)
    return run(context, 0, n);
  // Four ranges a worker even out unequal speeds; never smaller than the grain.
  const std::int64_t chunk = std::max(grain, (n + 4 * workers_ - 1) / (4 * workers_));
  const ThisThread& here = this_thread();
  Job job{.caller = here, .mode = LoopMode::of(here.mode), .n = n, .chunk = chunk, .context = context, .run = run};
  job.caller.core = &core_;
  job.wanted = static_cast<int>(std::min<std::int64_t>(workers_ - 1, (n - 1) / chunk));
  {
    const std::lock_guard hold(mutex_);
    job.next_job = jobs_;
    jobs_ = &job;
    job_count_.fetch_add(1);
    jobs_begun_.fetch_add(1, std::memory_order_relaxed);
    wake(job.wanted - std::min(job.wanted, searching_.load()));
  }
  job.work();
  std::unique_lock hold(mutex_);
  job_count_.fetch_sub(1);
  Job** link = &jobs_;
  while (*link != &job)
    link = &(*link)->next_job;
  *link = job.next_job;
  job_done_.wait(hold, [&] { return job.helpers == 0; });
  hold.unlock();
  if (job.error != nullptr)
    std::rethrow_exception(job.error);
}

}  // namespace sluice::detail
