#include <mutex>
#include <thread>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

// Tasks that become ready meanwhile wait until the lease is given up: they may belong to another device.
class ReadyAfter {
 public:
  explicit ReadyAfter(ThisThread& here) noexcept : here_(here), outermost_(!here.draining) { here.draining = true; }
  ReadyAfter(const ReadyAfter&) = delete;
  ReadyAfter& operator=(const ReadyAfter&) = delete;
  ~ReadyAfter() {
    if (outermost_)
      Core::run_ready(here_);
  }

 private:
  ThisThread& here_;
  const bool outermost_;
};

/// Counts the GPUs that the thread issues for.
class Lease {
 public:
  explicit Lease(ThisThread& here) noexcept : here_(here) { ++here.leases; }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { --here_.leases; }

 private:
  ThisThread& here_;
};

// Urgent, normal, background.
std::size_t list_of(const TaskNode& task) noexcept {
  const StreamClass of = class_of(task);
  return of == StreamClass::urgent ? 0 : of == StreamClass::background ? 2 : 1;
}

}  // namespace

void Issuer::List::append(TaskNode* task) noexcept {
  task->next = nullptr;
  (tail == nullptr ? head : tail->next) = task;
  tail = task;
}

void Issuer::List::prepend(const List& list) noexcept {
  if (list.head == nullptr)
    return;
  list.tail->next = head;
  head = list.head;
  if (tail == nullptr)
    tail = list.tail;
}

// There is one: the first, or the one behind so many.
TaskNode* Issuer::List::take(std::uint64_t skip) noexcept {
  TaskNode* before = nullptr;
  TaskNode* task = head;
  for (; skip > 0 && task->next != nullptr; --skip)
    before = std::exchange(task, task->next);
  (before == nullptr ? head : before->next) = task->next;
  if (task->next == nullptr)
    tail = before;
  return task;
}

Issuer::Issuer(Gpu& gpu, std::optional<std::uint64_t> chaos) : gpu_(gpu) {
  if (chaos)
    chaos_.emplace(*chaos);
}

// What other devices have captured must be launched before anything here can wait for it. Done before this thread
// holds a lease: two devices never wait for each other.
void Issuer::launch_far_needs(const TaskNode& task) {
  for (const AccessNode& access : task.accesses()) {
    const auto launch = [this](Position position) {
      const LogicalStream& logical = gpu_.logical.of(position);
      if (logical.device() != gpu_.device && logical.launched() < position.sequence())
        logical.gpu().issuer.await_launch(logical, position.sequence());
    };
    if (access.var->written_at)
      launch(access.var->written_at);
    if (access.exclusive()) {
      for (Position position : access.var->read_at)
        launch(position);
    }
  }
}

void Issuer::submit(TaskNode* task) {
  if (num_gpus() > 1)
    launch_far_needs(*task);
  // What others push may follow from what is issued here, without end.
  bool late = this_thread().issued >= LaunchRules::k_turn;
  {
    const std::lock_guard hold(lock_);
    const bool rests = leased_ || (class_of(*task) != StreamClass::urgent && gpu_.direct.throttled());
    if (rests || late || chaos_) {
      leave(task);
      if (rests)
        return;
      late = late || chaos_->below(2) != 0;
      task = nullptr;
    }
    leased_ = !late;
  }
  if (late)
    hand_over();
  else
    drain(task, false);
}

// With the lock held.
void Issuer::leave(TaskNode* task) noexcept {
  task->submitted.store(true, std::memory_order_release);
  light_fence(task->submitted_fence());  // against raise(): one of the two sees the other
  left_[list_of(*task)].append(task);
}

void Issuer::sort_by_class() noexcept {
  sort_wanted_.store(true);
  hand_over();
}

// Nobody else takes tasks out: the lists are looked through without the lock, however long they are.
void Issuer::sort() noexcept {
  std::array<List, 3> all, sorted;
  {
    const std::lock_guard hold(lock_);
    std::swap(all, left_);
  }
  for (List& list : all) {
    while (list.head != nullptr) {
      TaskNode* const task = list.take(0);
      sorted[list_of(*task)].append(task);
    }
  }
  const std::lock_guard hold(lock_);
  for (std::size_t i = 0; i < sorted.size(); ++i)
    left_[i].prepend(sorted[i]);
}

// The caller has the lease.
void Issuer::give_up(TaskNode* task) {
  {
    const std::lock_guard hold(lock_);
    if (task != nullptr)
      leave(task);
    leased_ = false;
  }
  hand_over();
}

// What others have left is the poller's from now on.
void Issuer::hand_over() {
  handed_over_.store(true, std::memory_order_relaxed);
  gpu_.policy.wake_poller();
}

// The caller has just got the lease, and keeps it if it may make calls. `tired`: it does not begin what others have
// left.
void Issuer::drain(TaskNode* task, bool tired) {
  if (!gpu_.policy.may_call_here()) [[unlikely]]
    return give_up(task);
  ThisThread& here = this_thread();
  const ReadyAfter ready_after(here);
  const Lease lease(here);
  depth_ = here.leases;
  issuing_.store(&here, std::memory_order_relaxed);
  if (task == nullptr)
    task = next_or_give_up(tired);
  for (; task != nullptr; task = next_or_give_up(tired || here.issued >= LaunchRules::k_turn)) {
    ++here.issued;
    Core::claim(task);
    if (FailureRef failure = gpu_.core.start(task)) {
      gpu_.direct.fail_unissued(task, std::move(failure), false);
      continue;
    }
    try {
      gpu_.loss.check_alive();
      const cuda::DeviceScope on(gpu_.device.index);
      gpu_.slots.make();
      const PositionSet needs = gpu_.core.needs(task);
      if (gpu_.batches.takes(*task))
        gpu_.batches.issue(task, needs);
      else
        gpu_.direct.issue(task, needs);
    } catch (...) {  // before the body was called
      gpu_.direct.fail_unissued(task, gpu_.loss.caught(gpu_.core.record_of(task)), true);
    }
  }
}

// `tired`: others push without end; the poller goes on, so that this thread may.
TaskNode* Issuer::next_or_give_up(bool tired) {
  for (;;) {
    bool launch = false, leaves = false;
    if (sort_wanted_.load(std::memory_order_relaxed) && sort_wanted_.exchange(false)) [[unlikely]]
      sort();
    {
      const std::lock_guard hold(lock_);
      launch = std::exchange(launch_wanted_, false);  // first: others may push without end
      for (List& list : left_) {
        if (launch || (&list != left_.data() && gpu_.direct.throttled()))
          break;
        leaves = list.head != nullptr && tired;
        if (leaves)
          break;
        if (list.head != nullptr)
          return list.take(chaos_ ? chaos_->below(8) : 0);
      }
      if (!launch) {
        issuing_.store(nullptr, std::memory_order_relaxed);
        leased_ = false;
      }
    }
    if (leaves)
      hand_over();
    if (!launch)
      return nullptr;
    gpu_.rules.host_waits();
    gpu_.batches.launch();
    gpu_.slots.mark_all();
  }
}

bool Issuer::take_launch_wanted() {
  const std::lock_guard hold(lock_);
  return std::exchange(launch_wanted_, false);
}

void Issuer::nudge(bool in_body) {
  {
    const std::lock_guard hold(lock_);
    launch_wanted_ = true;
    if (leased_)
      return;
    leased_ = true;
  }
  drain(nullptr, in_body);
}

void Issuer::await_launch(const LogicalStream& logical, std::uint64_t sequence) {
  nudge();
  for (int looks = 0; logical.launched() < sequence; ++looks) {
    if (looks < 256) {
      pause_briefly();
    } else {
      std::this_thread::yield();
      nudge();
    }
  }
}

bool Issuer::attend() {
  bool open = false;
  if (gpu_.batches.is_stale(open))
    nudge();
  const bool throttled = gpu_.direct.throttled();
  if (throttled || handed_over_.exchange(false, std::memory_order_relaxed)) {
    {
      const std::lock_guard hold(lock_);
      if (leased_)
        return true;
      leased_ = true;
    }
    if (throttled)
      gpu_.direct.recheck_backlog();
    drain(nullptr, false);
  }
  return open || gpu_.direct.throttled() || handed_over_.load(std::memory_order_relaxed);
}

}  // namespace sluice::detail
