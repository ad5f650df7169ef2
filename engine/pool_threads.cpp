// The pool's threads: made when there is work for them, and what becomes of it where the system gives none.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

void PoolPolicy::wake(int count) noexcept {
  probe_lock();
  for (int i = 0; i < count && may_run() && !stopping_; ++i) {
    if (parked_ > wake_tokens_) {
      ++wake_tokens_;
      searching_.fetch_add(1);  // on behalf of the one that wakes, so that nobody wakes more meanwhile
      wake_.notify_one();
      continue;
    }
    const int index = threads();
    if (index >= std::min(workers_ + blocked_, k_max_threads))
      return;
    // A blocked body's thread is replaced, so there may be more threads than workers; never more that run.
    try {
      add_worker(index);
    } catch (const ThreadError& error) {  // the threads that there are do the work
      tell_of_shortage(index, error);
      return;
    } catch (...) {  // out of memory
      short_of_threads_.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

void PoolPolicy::add_worker(int index) {
  auto worker = std::make_unique<Worker>();
  worker->random = Random(chaos_seed_ * 1000 + static_cast<std::uint64_t>(index));
  worker->searching = true;
  worker->index = index;
  worker->own_queue = std::make_unique<WorkQueue>();
  worker->queue = worker->own_queue.get();
  worker->queue->owner_runs.store(true);
  Worker& made = *worker;
  all_[static_cast<std::size_t>(index)] = std::move(worker);
  try {
    if (index >= test_faults().most_workers.load(std::memory_order_relaxed))
      throw boost::thread_resource_error(EAGAIN, "planted by a test");
    made.thread = boost::thread([this, &made] { live(made); });
  } catch (const boost::thread_resource_error& error) {
    all_[static_cast<std::size_t>(index)].reset();
    const std::string which =
        index < workers_ ? message(index + 1, " of ", workers_) : std::string("in place of a body that waits");
    throw ThreadError(message("engine: thread ", which, " cannot be started: ", error.code().message()));
  } catch (...) {
    all_[static_cast<std::size_t>(index)].reset();
    throw;
  }
  ++running_;  // it starts with a permit, as a searcher
  searching_.fetch_add(1);
  if (index < workers_)
    sleepers_.fetch_sub(1);
  threads_.store(index + 1, std::memory_order_release);
}

// The first one: without any, nobody would run what is pushed, and nobody say so.
bool PoolPolicy::need_thread() {
  if (threads() > 0)
    return true;
  if (works_here())
    return false;  // this thread will run it
  const std::lock_guard hold(mutex_);
  if (threads() == 0 && !stopping_)
    add_worker(0);
  return true;
}

// Once: a program that asks for more than it can have should know, and goes on with what there is.
void PoolPolicy::tell_of_shortage(int had, const ThreadError& error) noexcept {
  if (short_of_threads_.exchange(true, std::memory_order_relaxed) || std::exchange(told_of_shortage_, true))
    return;
  if (had > 0)  // otherwise the push has thrown it, or an attached thread does the work
    std::fprintf(stderr, "sluice: %s; tasks run on %d\n", error.message().c_str(), had);
}

// Threads that could not be had are asked for again as long as somebody waits for what they would run.
void PoolPolicy::while_waiting() {
  if (!short_of_threads_.load(std::memory_order_relaxed))
    return;
  const std::lock_guard hold(mutex_);
  if (!anything_left() && job_count_.load() == 0)
    return;
  short_of_threads_.store(false, std::memory_order_relaxed);
  wake(1);
}

}  // namespace sluice::detail
