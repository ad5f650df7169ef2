// A worker of the pool: where it looks for tasks, in which order, and when it parks.
#include <algorithm>
#include <pthread.h>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>

namespace sluice::detail {

namespace {
constexpr int k_search_rounds = 400;         // some 20 to 50 us: waking a parked thread costs several
constexpr std::uint64_t k_ageing_pick = 64;  // every so many picks the lowest class comes first
constexpr int k_next_limit = 16;             // run-next picks in a row, so that the ring is not starved
constexpr int k_batch = 32;
constexpr std::size_t k_normal = static_cast<std::size_t>(Priority::normal);
}  // namespace

void PoolPolicy::live(Worker& me) {
  ThisThread& here = this_thread();
  here.pool = this;
  here.pool_worker = &me;
  std::unique_lock hold(mutex_);
  pthread_setname_np(pthread_self(), (thread_name_.substr(0, 11) + "-" + std::to_string(me.index)).c_str());
  for (;;) {
    hold.unlock();
    work(me);
    hold.lock();
    --running_;
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
  sleepers_.fetch_add(1);
  heavy_fence();
  for (;;) {
    // Announced first, looked second: a submit that saw no sleeper has its task seen here.
    if (stopping_ || (may_run() && (work_in_sight() || me.searching)))
      break;
    if (std::exchange(me.searching, false))
      searching_.fetch_sub(1);
    ++parked_;
    wake_.wait(hold);
    --parked_;
    if (wake_tokens_ > 0) {
      --wake_tokens_;
      me.searching = true;
    }
  }
  sleepers_.fetch_sub(1);
}

void PoolPolicy::work(Worker& me) {
  for (;;) {
    if (attention_.load(std::memory_order_relaxed) > 0 && me.next == nullptr)
      return;
    if (TaskNode* task = pick(me)) {
      if (me.searching)
        stop_searching(me, true);
      run(task);
    } else if (!help(me) && !search(me)) {
      return;
    }
  }
}

// The last searcher to find work wakes the next one: there may be more where this came from.
void PoolPolicy::stop_searching(Worker& me, bool found) {
  me.searching = false;
  const bool last = searching_.fetch_sub(1) == 1;
  if (!found || !last || sleepers_.load() == 0)
    return;
  const std::lock_guard hold(mutex_);
  if (work_in_sight())
    wake(1);
}

TaskNode* PoolPolicy::pick(Worker& me) {
  if (++me.picks % k_ageing_pick == 0) {
    if (TaskNode* task = pick_aged())
      return task;
  }
  for (const Priority above : {Priority::urgent, Priority::high}) {
    if (TaskNode* task = take_from(lists_[static_cast<std::size_t>(above)]))
      return task;
  }
  if (me.next != nullptr && (++me.next_in_a_row < k_next_limit || me.ring.size() == 0))
    return std::exchange(me.next, nullptr);
  me.next_in_a_row = 0;
  if (TaskNode* task = me.ring.take())
    return task;
  if (me.next != nullptr)
    return std::exchange(me.next, nullptr);
  if (TaskNode* task = take_shared(me))
    return task;
  if (TaskNode* task = steal(me))
    return task;
  return take_from(lists_[static_cast<std::size_t>(Priority::background)]);
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
    me.ring.append(rest);  // the ring is empty here, and longer than a batch
    rest = next;
  }
  return first;
}

TaskNode* PoolPolicy::steal(Worker& me) {
  const int count = threads();
  me.random = me.random * 6364136223846793005ull + 1442695040888963407ull;
  const int start = static_cast<int>((me.random >> 33) % static_cast<std::uint64_t>(std::max(count, 1)));
  for (int i = 0; i < count; ++i) {
    Worker& victim = *all_[static_cast<std::size_t>((start + i) % count)];
    if (&victim == &me)
      continue;
    TaskNode* stolen[k_batch];
    const int got = victim.ring.steal(stolen, k_batch);
    if (got == 0)
      continue;
    for (int k = 1; k < got; ++k)
      me.ring.append(stolen[k]);
    return stolen[0];
  }
  return nullptr;
}

bool PoolPolicy::help(Worker& me) {
  if (job_count_.load(std::memory_order_acquire) == 0)
    return false;
  std::unique_lock hold(mutex_);
  Job* job = jobs_;
  while (job != nullptr && (job->helpers >= job->wanted || job->finished()))
    job = job->next_job;
  if (job == nullptr)
    return false;
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

bool PoolPolicy::work_in_sight() const noexcept {
  for (const List& list : lists_) {
    if (list.size.load(std::memory_order_acquire) > 0)
      return true;
  }
  for (int i = 0; i < threads(); ++i) {
    if (all_[static_cast<std::size_t>(i)]->ring.size() > 0)
      return true;
  }
  for (const Job* job = jobs_; job != nullptr && job_count_.load() > 0; job = job->next_job) {
    if (job->helpers < job->wanted && !job->finished())
      return true;
  }
  return false;
}

// One worker in eight looks on for a while before it parks. True if there is something to pick.
bool PoolPolicy::search(Worker& me) {
  core_.let_waiters_look();
  if (!me.searching) {
    if (searching_.load() >= std::max(1, workers_ / 8))
      return false;
    me.searching = true;
    searching_.fetch_add(1);
  }
  for (int round = 0; round < k_search_rounds; ++round) {
    if (attention_.load(std::memory_order_relaxed) > 0)
      break;
    for (const List& list : lists_) {
      if (list.size.load(std::memory_order_relaxed) > 0)
        return true;
    }
    for (int i = 0; i < threads(); ++i) {
      if (all_[static_cast<std::size_t>(i)]->ring.size() > 0)
        return true;
    }
    if (job_count_.load(std::memory_order_relaxed) > 0)
      return true;
    for (int i = 0; i < std::min(4 << std::min(round, 4), 64); ++i)
      pause_briefly();
  }
  stop_searching(me, false);
  return false;
}

}  // namespace sluice::detail
