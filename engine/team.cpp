#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <unistd.h>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/float_mode.h>
#include <sluice/engine/detail/team.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

namespace {
AtomicRunner team_runner{Runner{}};
}  // namespace

/// One of the threads. Leaked with it: engines in static objects may still use it at exit.
struct TeamThread::Caller {
  const pid_t process;
  const FloatMode mode;
  std::mutex mutex = {};
  std::condition_variable changed = {};
  const std::function<void()>* work = nullptr;

  void serve();
};

TeamThread& TeamThread::instance() {
  static auto* team = new TeamThread;
  return *team;
}

Runner TeamThread::runner() noexcept {
  return team_runner.load();
}

bool TeamThread::take(pid_t process) noexcept {
  pid_t holder = 0;
  if (holder_.compare_exchange_strong(holder, process, std::memory_order_acquire))
    return true;
  return holder != process && holder_.compare_exchange_strong(holder, process, std::memory_order_acquire);
}

bool TeamThread::try_acquire(FloatMode mode) noexcept {
  const pid_t process = ::getpid();
  if (!take(process))
    return false;
  const auto found = std::find_if(callers_.begin(), callers_.end(), [&](const Caller* caller) {
    return caller->process == process && caller->mode == mode;
  });
  current_ = found == callers_.end() ? nullptr : *found;
  if (current_ != nullptr || start(process, mode))
    return true;
  release();
  return false;
}

// Where it fails, the task runs with one thread, and the next that wants a team tries again.
bool TeamThread::start(pid_t process, FloatMode mode) noexcept {
  if (test_faults().no_team_threads.load(std::memory_order_relaxed))
    return false;
  try {
    callers_.reserve(callers_.size() + 1);
    auto made = std::unique_ptr<Caller>(new Caller{process, mode});
    boost::thread([made = made.get()] { made->serve(); }).detach();
    current_ = made.release();
    callers_.push_back(current_);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void TeamThread::run(const std::function<void()>& work) {
  Caller& caller = *current_;
  std::unique_lock hold(caller.mutex);
  caller.work = &work;
  caller.changed.notify_all();
  caller.changed.wait(hold, [&] { return caller.work == nullptr; });
}

// Not as the thread computes that happened to make it: its team is to compute so whoever asks next.
void TeamThread::Caller::serve() {
  pthread_setname_np(pthread_self(), "sluice-team");
  const Runner mine = Runner::here();
  mode.install();
  std::unique_lock hold(mutex);
  for (;;) {
    changed.wait(hold, [&] { return work != nullptr; });
    const auto* given = work;
    hold.unlock();
    team_runner.store(mine);
    (*given)();
    hold.lock();
    work = nullptr;
    changed.notify_all();
  }
}

}  // namespace sluice::detail
