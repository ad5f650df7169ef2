// What fork() does to engines. The child has one thread and a copy of everything: lists are at rest and locks free, as
// the parent sees to before. What was pushed and not finished ends in the parent alone: in the child its Vars are free
// again, and failed (Forked) if they were to be written. Workers are made anew when there is work.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <unistd.h>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/fork_watch.h>

namespace sluice::detail {

namespace {

struct Watched {
  std::mutex mutex;
  std::vector<Core*> cores;
  ForkWatch* watches = nullptr;  // under the mutex, like the cores
  SpinLock lock;
  std::vector<SpinLock*> locks;
  bool inside_task = false;
};

std::atomic<std::uint32_t> forks{0};  // in this process and those that it comes from

void before_any();
void after_in_parent();
void after_in_child();

Watched& watched() {
  alignas(Watched) static std::byte room[sizeof(Watched)];
  static Watched* all = [] {
    auto* made = ::new (static_cast<void*>(room)) Watched;  // never destroyed: engines may outlive static objects
    pthread_atfork(&before_any, &after_in_parent, &after_in_child);
    return made;
  }();
  return *all;
}

void before_any() {
  Watched& all = watched();
  all.mutex.lock();
  const ThisThread& here = this_thread();
  all.inside_task = here.task != nullptr || here.gpu_body != nullptr || here.draining || here.lists_depth > 0;
  for (Core* core : all.cores)
    core->before_fork();
  for (ForkWatch* watch = all.watches; watch != nullptr; watch = watch->next())
    watch->tell(ForkMoment::before);
  all.lock.lock();
  for (SpinLock* lock : all.locks)
    lock->lock();
}

void free_locks(Watched& all, ForkMoment moment) {
  for (SpinLock* lock : all.locks)
    lock->unlock();
  all.lock.unlock();
  for (ForkWatch* watch = all.watches; watch != nullptr; watch = watch->next())
    watch->tell(moment);
}

void after_in_parent() {
  Watched& all = watched();
  free_locks(all, ForkMoment::in_parent);
  for (Core* core : all.cores)
    core->after_fork_in_parent();
  all.mutex.unlock();
}

void after_in_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  Watched& all = watched();
  free_locks(all, ForkMoment::in_child);
  prepare_fences();
  ThisThread& here = this_thread();
  keep_only_slot(here.slot);
  here.ready_head = here.ready_tail = nullptr;  // put off on this thread, which goes on: they are the parent's
  for (Core* core : all.cores)
    core->after_fork_in_child(all.inside_task);
  all.mutex.unlock();
}

// A fresh one in place of one that threads of the parent may hold or sleep on.
template <class T>
void make_anew(T& object) {
  ::new (static_cast<void*>(&object)) T;
}

}  // namespace

std::uint32_t fork_count() noexcept {
  return forks.load(std::memory_order_relaxed);
}

void hold_over_forks(SpinLock& lock) {
  Watched& all = watched();
  const std::lock_guard hold(all.lock);
  all.locks.push_back(&lock);
}

ForkWatch::ForkWatch(void* owner, Notice notice) noexcept : owner_(owner), notice_(notice) {
  Watched& all = watched();
  const std::lock_guard hold(all.mutex);
  next_ = all.watches;
  if (next_ != nullptr)
    next_->before_ = this;
  all.watches = this;
}

ForkWatch::~ForkWatch() {
  Watched& all = watched();
  const std::lock_guard hold(all.mutex);
  (before_ == nullptr ? all.watches : before_->next_) = next_;
  if (next_ != nullptr)
    next_->before_ = before_;
}

void Core::watch_forks(Core* core, bool alive) {
  // Tasks that still run when the process ends call into libraries whose static objects are destroyed by then. A
  // thread-local of the main thread goes before every static object, those of libraries loaded later included.
  // Where no engine was made there, an exit handler is the best there is.
  struct AtEnd {
    ~AtEnd() { drain_all_at_exit(); }
  };
  if (alive && getpid() == gettid()) {
    static thread_local AtEnd at_end;
    (void)at_end;
  } else if (alive) {
    static const int registered = std::atexit([] { drain_all_at_exit(); });
    (void)registered;
  }
  Watched& all = watched();
  const std::lock_guard hold(all.mutex);
  if (alive) {
    all.cores.push_back(core);
  } else {
    std::erase(all.cores, core);
  }
}

void Core::drain_all_at_exit() noexcept {
  const ThisThread& here = this_thread();
  if (here.task != nullptr || here.gpu_body != nullptr)
    return;  // exit() in a body, which would wait for itself
  // Kept, and waited for without the lock, which a task that forks or makes an engine needs.
  std::vector<Core*> cores;
  try {
    Watched& all = watched();
    const std::lock_guard hold(all.mutex);
    cores.reserve(all.cores.size());
    for (Core* core : all.cores) {
      int references = core->references_.load();
      while (references > 0 && !core->references_.compare_exchange_weak(references, references + 1)) {
      }
      if (references > 0)  // else it is being destroyed
        cores.push_back(core);
    }
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Core* core : cores) {
    core->drain_for_exit();
    core->release();
  }
}

void Core::before_fork() {
  if (this_thread().lists_depth == 0)  // inside, on this very thread, nothing can be made to rest
    halt_lists();                      // first: whoever is inside may want the locks
  blocked_mutex_.lock();
  failures_mutex_.lock();
  late_.lock();
}

void Core::after_fork_in_parent() {
  late_.unlock();
  failures_mutex_.unlock();
  blocked_mutex_.unlock();
  if (this_thread().lists_depth == 0)
    resume_lists();
}

void Core::after_fork_in_child(bool inside_task) {
  after_fork_in_parent();
  ++era_;
  unready_.store(true);
  forked_in_task_ = forked_in_task_ || inside_task;
  make_anew(wait_all_mutex_);
  make_anew(drained_mutex_);
  make_anew(drained_);
  make_anew(pressure_mutex_);
  make_anew(extensions_mutex_);
  make_anew(gpu_names_mutex_);
  make_anew(cancels_);
  drain_waiters_.store(0);
  blocked_.clear();
  suspended_.store(0);
  counts_[k_shared_slot].inside.store(0);
  for (CountShard& shard : counts_) {
    shard.inside.store(0);
    shard.spare_bytes.store(0);
    for (std::size_t epoch = 0; epoch < 2; ++epoch)
      shard.left[epoch].word().store(shard.entered[epoch].get());  // none of them is in this process
  }
  in_flight_.forget();
  live_restraint_.forget();
  // Threads, CUDA contexts and all that stands in their memory stayed behind. Their objects are left where they are.
  static_cast<void>(cpu_.release());
  static_cast<void>(gpu_owner_.release());
  gpu_.store(nullptr);
  cpu_ = make_cpu_policy(*this, options_);
  keep_stopped();
}

void Core::renew(VarCore* var) noexcept {
  const std::lock_guard hold(var->lock);
  if (var->era == era_)
    return;
  var->era = era_;
  const VarMode mode = var->mode.load();
  const bool to_be_written = mode == VarMode::writing || mode == VarMode::reading_closed;
  if (to_be_written || var->written_at) {
    try {
      throw Forked("the Var was in use when the process forked; its value is the parent's alone");
    } catch (...) {
      var->poison = {capture_failure(new_record("fork", {}, 0)), true};
    }
  }
  var->mode.store(VarMode::idle);
  var->gate_open.store(false);
  var->gate = nullptr;  // what parent's readers counted in; left
  var->readers.store(0);
  var->inbox_head = var->inbox_tail = var->run = nullptr;
  var->commuting = nullptr;
  var->urgency.store(Priority::background, std::memory_order_relaxed);
  var->urgers.store(0, std::memory_order_relaxed);
  var->written_at = {};
  var->read_at.clear();
}

void Core::enter_era(const Task& task) {
  require<Forked>(!forked_in_task_, [&] {
    return message("push: task \"", task.name.c_str(), "\" in a child forked inside a task, which may only exec");
  });
  for (const Access& access : task.access) {
    if (access.var != nullptr && access.var->core == this)
      renew(access.var);
  }
}

}  // namespace sluice::detail
