#include <algorithm>
#include <cerrno>
#include <chrono>
#include <pthread.h>
#include <sys/prctl.h>
#include <thread>

#include <sluice/engine/cuda/background_poller.h>
#include <sluice/engine/detail/test_faults.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

namespace {

// The driver is asked every 5 us, and less often while nothing happens; after a millisecond of that the thread sleeps.
constexpr std::chrono::microseconds k_soon(5), k_later(50);
constexpr int k_quick_looks = 20, k_idle_looks = 20;

}  // namespace

void BackgroundPoller::wake() {
  // The thread says that it sleeps before it looks for the last time, so one of the two sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (awake_.load(std::memory_order_seq_cst))
    return;
  const std::lock_guard hold(mutex_);
  if (stopping_)
    return;
  if (!thread_.joinable())
    begin();
  awake_.store(true);
  asleep_ = false;  // as of now: rest() is not to take it for asleep before it has got up
  changed_.notify_all();
}

void BackgroundPoller::begin() {
  try {
    if (test_faults().most_workers.load(std::memory_order_relaxed) == 0)
      throw boost::thread_resource_error(EAGAIN, "planted by a test");
    thread_ = boost::thread([this] { live(); });
  } catch (const boost::thread_resource_error& error) {
    throw ThreadError(message("engine: the thread that watches GPUs cannot be started: ", error.code().message()));
  }
}

void BackgroundPoller::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
  thread_id_.store({}, std::memory_order_relaxed);  // which the next thread of the process may get
}

void BackgroundPoller::rest(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock hold(mutex_);
  fell_asleep_.wait_until(hold, deadline, [this] { return asleep_ || stopping_ || !thread_.joinable(); });
}

void BackgroundPoller::restart() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = false;
    awake_.store(false);
  }
  wake();
}

void BackgroundPoller::live() {
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  pthread_setname_np(pthread_self(), "sluice-gpu");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // otherwise every sleep lasts 50 us longer
  int quiet = 0, idle = 0;           // looks without progress, without work
  for (;;) {
    const Seen seen = poll_();
    quiet = seen == Seen::progress ? 0 : quiet + 1;
    idle = seen == Seen::nothing ? idle + 1 : 0;
    if (idle > k_idle_looks) {
      awake_.store(false);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (poll_() == Seen::nothing) {  // else somebody came while this thread still seemed to be awake
        std::unique_lock hold(mutex_);
        asleep_ = !awake_.load();
        fell_asleep_.notify_all();
        changed_.wait(hold, [this] { return stopping_ || awake_.load(); });
        if (stopping_)
          return;
      }
      awake_.store(true);
      quiet = idle = 0;
    }
    const std::chrono::microseconds seldom(test_faults().poller_sleeps.load(std::memory_order_relaxed));
    std::this_thread::sleep_for(std::max(seldom, quiet < k_quick_looks ? k_soon : k_later));
  }
}

}  // namespace sluice::detail
