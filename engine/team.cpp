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
  std::mutex mutex = {};
  std::condition_variable changed = {};
  const std::function<void()>* work = nullptr;

  void serve(bool flush_denormals);
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

bool TeamThread::try_acquire(bool flush_denormals) noexcept {
  const pid_t process = ::getpid();
  if (!take(process))
    return false;
  Caller*& caller = callers_[flush_denormals ? 1 : 0];
  if ((caller != nullptr && caller->process == process) || start(caller, process, flush_denormals))
    return true;
  release();
  return false;
}

// Where it fails, the task runs with one thread, and the next that wants a team tries again.
bool TeamThread::start(Caller*& caller, pid_t process, bool flush_denormals) noexcept {
  if (test_faults().no_team_threads.load(std::memory_order_relaxed))
    return false;
  try {
    auto made = std::unique_ptr<Caller>(new Caller{process});
    boost::thread([made = made.get(), flush_denormals] { made->serve(flush_denormals); }).detach();
    caller = made.release();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void TeamThread::run(bool flush_denormals, const std::function<void()>& work) {
  Caller& caller = *callers_[flush_denormals ? 1 : 0];
  std::unique_lock hold(caller.mutex);
  caller.work = &work;
  caller.changed.notify_all();
  caller.changed.wait(hold, [&] { return caller.work == nullptr; });
}

void TeamThread::Caller::serve(bool flush_denormals) {
  pthread_setname_np(pthread_self(), "sluice-team");
  const Runner mine = Runner::here();
  if (flush_denormals)
    FloatMode::current().flushing().install();
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
