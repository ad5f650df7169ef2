#include <pthread.h>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/team.h>

namespace sluice::detail {

TeamThread& TeamThread::instance() {
  static auto* team = new TeamThread;  // leaked with its thread: engines in static objects may still use it at exit
  return *team;
}

TeamThread::TeamThread() {
  boost::thread([this] { serve(); }).detach();
}

void TeamThread::run(const std::function<void()>& work) {
  std::unique_lock hold(mutex_);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(hold, [&] { return work_ == nullptr; });
}

void TeamThread::serve() {
  pthread_setname_np(pthread_self(), "sluice-team");
  std::unique_lock hold(mutex_);
  for (;;) {
    changed_.wait(hold, [&] { return work_ != nullptr; });
    const auto* work = work_;
    hold.unlock();
    (*work)();
    hold.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace sluice::detail
