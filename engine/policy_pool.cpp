#include <algorithm>
#include <chrono>
#include <pthread.h>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/team.h>

namespace sluice::detail {

namespace {
constexpr int k_spin_looks = 2000;           // some 20 to 50 us: a hand-off to a parked thread costs as much
constexpr std::uint64_t k_ageing_pick = 64;  // every so many picks serve the lowest class first
constexpr auto k_rest_limit = std::chrono::milliseconds(1);
}  // namespace

PoolPolicy::PoolPolicy(Core& core, int workers, std::string thread_name)
    : core_(core), workers_(workers), thread_name_(std::move(thread_name)) {}

PoolPolicy::~PoolPolicy() {
  stop();
}

void PoolPolicy::stop() {
  std::vector<boost::thread> threads;
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    wake_.notify_all();
  }
  for (auto& thread : threads)
    thread.join();
}

// -- Work comes in
// -----------------------------------------------------------------------------------------------------

void PoolPolicy::submit(TaskNode* task) {
  const std::lock_guard hold(mutex_);
  List& list = ready_[static_cast<std::size_t>(task->priority)];
  task->next = nullptr;
  (list.tail == nullptr ? list.head : list.tail->next) = task;
  list.tail = task;
  work_signal_.fetch_add(1, std::memory_order_relaxed);
  wake(1);
}

void PoolPolicy::wake(int count) {
  const int parked = idle_ - spinners_.load(std::memory_order_relaxed);
  for (int i = 0; i < std::min(count, parked); ++i)
    wake_.notify_one();
  // A blocked body's thread is replaced, so there may be more threads than workers; never more that run.
  const int allowed = std::min(count - idle_, workers_ + blocked_ - static_cast<int>(threads_.size()));
  for (int i = 0; i < allowed && !stopping_; ++i) {
    const int index = static_cast<int>(threads_.size());
    try {
      threads_.emplace_back([this, index] { work(index); });
    } catch (const boost::thread_resource_error&) {
      return;  // the threads that there are do the work; the next submit tries again
    }
    ++idle_;  // counted at once, so that the next submit does not make another
  }
}

TaskNode* PoolPolicy::pick() {
  const bool lowest_first = ++picks_ % k_ageing_pick == 0;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    List& list = ready_[lowest_first ? ready_.size() - 1 - i : i];
    if (list.head == nullptr)
      continue;
    TaskNode* task = list.head;
    list.head = task->next;
    if (list.head == nullptr)
      list.tail = nullptr;
    return task;
  }
  return nullptr;
}

bool PoolPolicy::has_work() const noexcept {
  return std::any_of(ready_.begin(), ready_.end(), [](const List& list) { return list.head != nullptr; });
}

PoolPolicy::Job* PoolPolicy::pick_job() {
  for (Job* job = jobs_; job != nullptr; job = job->next_job) {
    if (job->helpers < job->wanted && !job->finished())
      return job;
  }
  return nullptr;
}

// -- A worker's life
// ---------------------------------------------------------------------------------------------------

void PoolPolicy::work(int index) {
  pthread_setname_np(pthread_self(), (thread_name_.substr(0, 11) + "-" + std::to_string(index)).c_str());
  this_thread().is_worker = true;
  std::unique_lock hold(mutex_);
  --idle_;
  for (;;) {
    if (may_run()) {
      if (TaskNode* task = pick()) {
        ++running_;
        if (has_work())
          wake(1);  // a submit may have counted on this worker for two tasks
        hold.unlock();
        run(task);
        hold.lock();
        leave(hold);
        continue;
      }
      if (Job* job = pick_job()) {
        ++running_;
        ++job->helpers;
        hold.unlock();
        job->work();
        hold.lock();
        if (--job->helpers == 0)
          job_done_.notify_all();
        leave(hold);
        continue;
      }
    }
    if (stopping_)
      return;
    look_for_work(hold);
  }
}

void PoolPolicy::leave(std::unique_lock<std::mutex>&) {
  --running_;
  if (waiting_to_run_ > 0)
    rested_.notify_all();
}

void PoolPolicy::look_for_work(std::unique_lock<std::mutex>& hold) {
  ++idle_;
  // One worker in eight looks a little longer before it parks: waking a parked thread costs microseconds.
  if (may_run() && spinners_.load() < std::max(1, workers_ / 8)) {
    spinners_.fetch_add(1);
    const std::uint32_t seen = work_signal_.load();
    hold.unlock();
    for (int i = 0; i < k_spin_looks && work_signal_.load(std::memory_order_relaxed) == seen; ++i)
      pause_briefly();
    hold.lock();
    spinners_.fetch_sub(1);
    if (work_signal_.load() != seen || stopping_) {
      --idle_;
      return;
    }
  }
  wake_.wait(hold);
  --idle_;
}

void PoolPolicy::run(TaskNode* task) {
  TeamThread* team = nullptr;
  if (task->threads > 1 && workers_ > 1 && TeamThread::instance().try_acquire())
    team = &TeamThread::instance();
  const int granted = team == nullptr ? 1 : reserve_team(task->threads);
  if (granted == 1) {
    if (team != nullptr)
      team->release();
    core_.run_on_cpu(task, 1);
    return;
  }
  team->run([&] { core_.run_on_cpu(task, granted); });
  team->release();
  const std::lock_guard hold(mutex_);
  reserved_ -= granted - 1;
  wake(granted - 1);
  rested_.notify_all();
}

// Asks other workers to rest after what they run now, for a moment; takes the cores that are free by then.
int PoolPolicy::reserve_team(int threads) {
  std::unique_lock hold(mutex_);
  const int wanted = std::min(threads, workers_) - 1;
  reserved_ += wanted;
  ++waiting_to_run_;
  rested_.wait_for(hold, k_rest_limit, [&] { return running_ + reserved_ <= workers_; });
  --waiting_to_run_;
  const int got = std::clamp(workers_ - running_ - (reserved_ - wanted), 0, wanted);
  reserved_ -= wanted - got;
  if (got < wanted)
    wake(wanted - got);
  return got + 1;
}

// -- Blocking bodies
// ---------------------------------------------------------------------------------------------------

void PoolPolicy::before_block() {
  const std::lock_guard hold(mutex_);
  ++blocked_;
  --running_;
  if (waiting_to_run_ > 0)
    rested_.notify_all();
  wake(1);
}

void PoolPolicy::after_block() {
  std::unique_lock hold(mutex_);
  ++waiting_to_run_;
  ++resuming_;
  rested_.wait(hold, [&] { return running_ + reserved_ < workers_; });
  --resuming_;
  --waiting_to_run_;
  --blocked_;
  ++running_;
}

// -- parallel_for
// ------------------------------------------------------------------------------------------------------

void PoolPolicy::Job::work() noexcept {
  ThisThread& here = this_thread();
  const bool before = std::exchange(here.in_parallel, true);
  Core* const core_before = std::exchange(here.core, core);
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
  here.core = core_before;
  here.in_parallel = before;
}

void PoolPolicy::parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) {
  if (workers_ == 1)
    return run(context, 0, n);
  // Four ranges a worker even out unequal speeds; never smaller than the grain.
  const std::int64_t chunk = std::max(grain, (n + 4 * workers_ - 1) / (4 * workers_));
  Job job{.core = &core_, .n = n, .chunk = chunk, .context = context, .run = run};
  job.wanted = static_cast<int>(std::min<std::int64_t>(workers_ - 1, (n - 1) / chunk));
  {
    const std::lock_guard hold(mutex_);
    job.next_job = jobs_;
    jobs_ = &job;
    work_signal_.fetch_add(1, std::memory_order_relaxed);
    wake(job.wanted);
  }
  job.work();
  std::unique_lock hold(mutex_);
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
