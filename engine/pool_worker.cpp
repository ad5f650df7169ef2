// A worker of the pool: where it looks for tasks, in which order, and when it parks.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <pthread.h>
#include <utility>

#include <sluice/engine/detail/clock.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>

namespace sluice::detail {

namespace {
// Clock ticks of a search: some 4 us, about what it costs to park and be woken, where searches find nothing, as in
// programs that mostly sleep; up to 40 us where they do.
constexpr std::uint64_t k_short_search = 10000, k_long_search = 100000;
constexpr std::uint64_t k_ageing_pick = 64;  // every so many picks the lowest class comes first
constexpr int k_next_limit = 16;             // run-next picks in a row, so that the ring is not starved
constexpr int k_batch = 32;
constexpr std::uint64_t k_sample = 8;       // every so many bodies are timed
constexpr std::uint64_t k_overhead = 3000;  // clock ticks of a task without its body, at most
constexpr auto k_watch = std::chrono::milliseconds(1);
constexpr std::size_t k_normal = static_cast<std::size_t>(Priority::normal);
}  // namespace

void PoolPolicy::name_and_place(const Worker& me) const {
  char name[16];
  std::snprintf(name, sizeof name, "%.11s-%u", thread_name_.c_str(), static_cast<unsigned>(me.index) % 1000U);
  pthread_setname_np(pthread_self(), name);
  if (cores_.empty())
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cores_[static_cast<std::size_t>(me.index) % cores_.size()]), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void PoolPolicy::live(Worker& me) {
  ThisThread& here = this_thread();
  here.pool = this;
  here.pool_worker = &me;
  core_.thread_mode().install();
  me.runner.store(Runner::here());
  std::unique_lock hold(mutex_);
  name_and_place(me);
  for (;;) {
    hold.unlock();
    work(me);
    sleepers_.fetch_add(1);
    heavy_fence();
    hold.lock();
    if (--running_ == 0)
      pace_.store(k_pace_unknown, std::memory_order_relaxed);
    if (resting_waiters_ > 0)
      rested_.notify_all();
    if (stopping_)
      return;
    park(hold, me);
    if (stopping_)
      return;
    ++running_;
  }
}

// Returns with a permit free to take, or when the pool stops.
void PoolPolicy::park(std::unique_lock<std::mutex>& hold, Worker& me) {
  for (bool counted = false;;) {
    // Announced first (by the caller), looked second: a submit that saw no sleeper has its task seen here.
    if (stopping_ || (may_run() && (work_in_sight(me) || job_in_sight() || me.searching)))
      break;
    if (std::exchange(me.searching, false))
      searching_.fetch_sub(1);
    ++parked_;
    if (!std::exchange(counted, true))
      count(&Counters::parked);
    if ((running_ > 0 || anything_left()) && !watched_.exchange(true)) {
      wake_.wait_for(hold, k_watch);
      watched_.store(false);
    } else {
      wake_.wait(hold);
    }
    --parked_;
    if (wake_tokens_ > 0) {
      --wake_tokens_;
      me.searching = true;
    }
  }
  sleepers_.fetch_sub(1);
  if (!std::exchange(me.searching, true))
    searching_.fetch_add(1);
}

void PoolPolicy::work(Worker& me) {
  for (;;) {
    if (attention_.load(std::memory_order_relaxed) > 0 && me.next == nullptr)
      return;
    if (TaskNode* task = pick(me)) {
      if (me.searching)
        stop_searching(me, true);
      if (me.picks - me.batch_picks >= k_batch || me.batch_began == 0)
        end_batch(me);
      run_for(me, task);
      continue;
    }
    me.batch_began = 0;
    if (!help_job(me) && !search(me))
      return;
  }
}

void PoolPolicy::run_for(Worker& me, TaskNode* task) {
  ThisThread& here = this_thread();
  here.body_ticks = me.picks % k_sample == 0 ? 1 : 0;
  if (chaos_) [[unlikely]] {
    for (std::uint64_t pauses = me.random.below(8) == 0 ? me.random.below(2000) : 0; pauses > 0; --pauses)
      pause_briefly();
    if (me.random.below(8) == 0)
      std::this_thread::yield();
  }
  share_next(me);  // where something more urgent came before it
  me.running = true;
  if (std::exchange(me.ahead, false) ? Core::claim_ahead(task) : Core::claim(task))
    run_claimed(task);
  me.running = false;
  if (here.body_ticks > 1)
    take_pace(me, here.body_ticks);
}

// How long bodies are lately. A longer one counts at once, a shorter one by and by.
void PoolPolicy::take_pace(Worker& me, std::uint64_t ticks) noexcept {
  me.pace = std::max(ticks, me.pace - me.pace / 8);
}

// Over a batch, so that no long body escapes: what is beyond the cost of a task's own way through the engine.
void PoolPolicy::end_batch(Worker& me) {
  const std::uint64_t now = clock_ticks();
  if (me.batch_began != 0) {
    const std::uint64_t each = (now - me.batch_began) / std::max<std::uint64_t>(1, me.picks - me.batch_picks);
    if (each > k_overhead)
      take_pace(me, each - k_overhead);
    // Others are told of what is news to them only: they all look there.
    if (std::bit_width(pace_.load(std::memory_order_relaxed)) != std::bit_width(me.pace))
      pace_.store(me.pace, std::memory_order_relaxed);
  }
  me.batch_began = now;
  me.batch_picks = me.picks;
}

// The last searcher to find work wakes the next one: there may be more where this came from.
void PoolPolicy::stop_searching(Worker& me, bool found) {
  me.searching = false;
  const bool last = searching_.fetch_sub(1) == 1;
  if (!found || !last || sleepers_.load() == 0)
    return;
  // Work that is left wants another worker; short tasks at least one that watches.
  if (!anything_left() || (watched_.load(std::memory_order_relaxed) && !long_tasks()))
    return;
  const std::lock_guard hold(mutex_);
  wake(1);
}

TaskNode* PoolPolicy::pick(Worker& me) {
  if (++me.picks % k_ageing_pick == 0) {
    if (TaskNode* task = pick_aged())
      return task;
  }
  for (const Priority above : {Priority::urgent, Priority::high}) {
    if (TaskNode* task = take_class(me, above))
      return task;
  }
  if (TaskNode* task = take_raised(me, k_normal))
    return task;
  if (me.next != nullptr && (++me.next_in_a_row < k_next_limit || me.queue->ring.size() == 0))
    return std::exchange(me.next, nullptr);
  me.next_in_a_row = 0;
  if (TaskNode* task = me.queue->ring.take()) {
    for (std::uint64_t ahead = 0; ahead < 2; ++ahead) {  // pushed elsewhere, perhaps: fetched while this one runs
      if (const char* later = reinterpret_cast<const char*>(me.queue->ring.peek(ahead))) {
        for (int line = 0; line < 3; ++line)
          __builtin_prefetch(later + 64 * line, 1);
      }
    }
    return task;
  }
  if (me.next != nullptr)
    return std::exchange(me.next, nullptr);
  // Turn and turn about, so that neither starves: what did not fit into a ring, and rings.
  const bool list_first = (me.picks & 1) != 0;
  for (const bool from_list : {list_first, !list_first}) {
    if (TaskNode* task = from_list ? take_shared(me) : steal(me, false))
      return task;
  }
  return pick_background(me);
}

// What lies in another's ring comes before it, however short: its owner may not have a core at the moment.
TaskNode* PoolPolicy::pick_background(Worker& me) {
  constexpr auto background = static_cast<std::size_t>(Priority::background);
  if (lists_[background].size.load(std::memory_order_acquire) == 0 &&
      raised_[background].size.load(std::memory_order_acquire) == 0)
    return nullptr;
  TaskNode* normal = steal(me, true);
  return normal != nullptr ? normal : take_class(me, Priority::background);
}

TaskNode* PoolPolicy::take_raised(Worker& me, std::size_t index) {
  TaskNode* task = take_from(raised_[index]);
  me.ahead = task != nullptr;
  return task;
}

TaskNode* PoolPolicy::take_class(Worker& me, Priority priority) {
  const auto index = static_cast<std::size_t>(priority);
  TaskNode* task = take_raised(me, index);
  return task != nullptr ? task : take_from(lists_[index]);
}

TaskNode* PoolPolicy::pick_aged() {
  for (std::size_t i = k_classes; i-- > 0;) {
    if (TaskNode* task = take_from(lists_[i]))
      return task;
  }
  return nullptr;
}

// Normal tasks from outside: one to run, some more for the ring, for one lock.
TaskNode* PoolPolicy::take_shared(Worker& me) {
  List& list = lists_[k_normal];
  if (list.size.load(std::memory_order_acquire) == 0)
    return nullptr;
  TaskNode* first = nullptr;
  TaskNode* rest = nullptr;
  {
    const std::lock_guard hold(list.lock);
    first = list.head;
    if (first == nullptr)
      return nullptr;
    // A fair share, so that other workers find some too.
    const int there = list.size.load(std::memory_order_relaxed);
    const int share = std::clamp(there / workers_, 1, k_batch);
    TaskNode* last = first;
    for (int i = 1; i < share; ++i)
      last = last->next;
    rest = first == last ? nullptr : first->next;
    list.head = std::exchange(last->next, nullptr);
    if (list.head == nullptr)
      list.tail = nullptr;
    list.size.store(there - share, std::memory_order_release);
  }
  while (rest != nullptr) {
    TaskNode* next = rest->next;
    me.queue->ring.append(rest);  // the ring is empty here, and longer than a batch
    rest = next;
  }
  return first;
}

template <class Visit>
bool PoolPolicy::any_queue(Visit visit) const {
  for (int i = 0; i < threads(); ++i) {
    if (visit(*all_[static_cast<std::size_t>(i)]->queue))
      return true;
  }
  for (int i = 0; i < outside_count_.load(std::memory_order_acquire); ++i) {
    WorkQueue* queue = outside_[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (queue != nullptr && visit(*queue))
      return true;
  }
  return false;
}

bool PoolPolicy::help_job(Worker& me) {
  if (job_count_.load(std::memory_order_acquire) == 0)
    return false;
  std::unique_lock hold(mutex_);
  Job* job = jobs_;
  while (job != nullptr && (job->helpers >= job->wanted || job->finished()))
    job = job->next_job;
  if (job == nullptr) {
    me.jobs_seen = jobs_begun_.load(std::memory_order_relaxed);
    return false;
  }
  ++job->helpers;
  hold.unlock();
  if (me.searching)
    stop_searching(me, false);
  job->work();
  hold.lock();
  if (--job->helpers == 0)
    job_done_.notify_all();
  return true;
}

// Whether there is one that the worker has not looked at: those that it has want no more helpers than they had.
bool PoolPolicy::new_job(const Worker& me) const noexcept {
  return job_count_.load(std::memory_order_relaxed) > 0 && jobs_begun_.load(std::memory_order_relaxed) != me.jobs_seen;
}

bool PoolPolicy::anything_listed() const noexcept {
  for (const auto* lists : {&lists_, &raised_}) {
    for (const List& list : *lists) {
      if (list.size.load(std::memory_order_acquire) > 0)
        return true;
    }
  }
  return false;
}

bool PoolPolicy::anything_left() const noexcept {
  return anything_listed() || any_queue([](const WorkQueue& queue) { return queue.ring.size() > 0; });
}

// Whether a worker that looks would take something.
bool PoolPolicy::work_in_sight(const Worker& me) noexcept {
  return anything_listed() || any_queue([&](WorkQueue& queue) { return worth_stealing(me, queue); });
}

bool PoolPolicy::job_in_sight() const noexcept {
  for (const Job* job = jobs_; job != nullptr && job_count_.load() > 0; job = job->next_job) {
    if (job->helpers < job->wanted && !job->finished())
      return true;
  }
  return false;
}

// One worker in eight looks on for a while before it parks: for longer each time that it finds something, for less when
// it has not. True if there is something to pick.
bool PoolPolicy::search(Worker& me) {
  core_.let_waiters_look();
  if (!me.searching) {
    if (searching_.load() >= std::max(1, workers_ / 8))
      return false;
    me.searching = true;
    searching_.fetch_add(1);
  }
  const std::uint64_t began = clock_ticks();
  for (int round = 0; attention_.load(std::memory_order_relaxed) == 0; ++round) {
    if (work_in_sight(me) || new_job(me)) {
      if (round > 0)
        me.patience = std::min(2 * me.patience, k_long_search);
      return true;
    }
    if (clock_ticks() - began > me.patience) {
      me.patience = std::max(me.patience / 2, k_short_search);
      break;
    }
    for (int i = 0; i < 4 << std::min(round, 3); ++i)
      pause_briefly();
  }
  stop_searching(me, false);
  return false;
}

}  // namespace sluice::detail
