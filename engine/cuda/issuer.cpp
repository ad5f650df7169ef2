// Who issues on a device: one thread at a time, for all that push.
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_stale = 30000;  // nanoseconds
constexpr int k_turn = 256;              // tasks that a thread issues for others at one go

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

}  // namespace

void Issuer::List::append(TaskNode* task) noexcept {
  task->next = nullptr;
  (tail == nullptr ? head : tail->next) = task;
  tail = task;
}

TaskNode* Issuer::List::take() noexcept {
  TaskNode* task = head;
  if (task != nullptr) {
    head = task->next;
    if (head == nullptr)
      tail = nullptr;
  }
  return task;
}

Issuer::Issuer(Core& core, StreamPolicy& policy, LaneTable& lanes, Device device, LaunchOptions options)
    : core_(core), policy_(policy), lanes_(lanes), device_(device), options_(options), batch_(lanes, device) {}

Issuer::~Issuer() {
  batch_.abandon();
  if (error_words_ != nullptr)
    cudaFreeHost(error_words_);
}

bool Issuer::issuing_here() const noexcept {
  return issuing_.load(std::memory_order_relaxed) == &this_thread();
}

// What other devices have captured must be launched before anything here can wait for it. Done before this thread
// holds a lease: two devices never wait for each other.
void Issuer::launch_far_needs(const TaskNode& task) {
  for (const AccessNode& access : task.accesses()) {
    const auto launch = [this](Position position) {
      const Lane& lane = lanes_.at(position.stream());
      if (lane.device() != device_ && lane.launched() < position.sequence())
        lane.issuer().await_launch(lane, position.sequence());
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
  const Class of = class_of(*task);
  const bool may_issue = policy_.may_call_here();
  {
    const std::lock_guard hold(lock_);
    if (leased_ || !may_issue || (of != urgent && put_off_.load(std::memory_order_relaxed))) {
      left_[of == urgent ? 0 : of == background ? 2 : 1].append(task);
      if (leased_ || may_issue)
        return;
    } else {
      leased_ = true;
    }
  }
  if (may_issue)
    drain(task);
  else
    hand_over();
}

// What others have left is the attendant's from now on.
void Issuer::hand_over() {
  handed_over_.store(true, std::memory_order_relaxed);
  policy_.wake_attendant();
}

// The caller holds the lease. `tired`: it does not begin what others have left.
void Issuer::drain(TaskNode* first, bool tired) {
  const ReadyAfter ready_after(this_thread());
  issuing_.store(&this_thread(), std::memory_order_relaxed);
  if (first != nullptr)
    issue(first);
  for (int turn = tired ? k_turn : 0; TaskNode* task = next_or_give_up(turn >= k_turn); ++turn)
    issue(task);
}

// `tired`: others push without end; the attendant goes on, so that this thread may.
TaskNode* Issuer::next_or_give_up(bool tired) {
  for (;;) {
    bool launch = false, leaves = false;
    {
      const std::lock_guard hold(lock_);
      launch = std::exchange(launch_wanted_, false);  // first: others may push without end
      for (List& list : left_) {
        if (launch || (&list != left_.data() && put_off_.load(std::memory_order_relaxed)))
          break;
        leaves = list.head != nullptr && tired;
        if (leaves)
          break;
        if (TaskNode* task = list.take())
          return task;
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
    reset_pace();
    launch_batch();
    mark_all();
  }
}

void Issuer::nudge(bool in_body) {
  const bool may_issue = policy_.may_call_here();
  {
    const std::lock_guard hold(lock_);
    launch_wanted_ = true;
    if (leased_)
      return;
    leased_ = may_issue;
  }
  if (may_issue)
    drain(nullptr, in_body);
  else
    hand_over();
}

void Issuer::await_launch(const Lane& lane, std::uint64_t sequence) {
  nudge();
  for (int looks = 0; lane.launched() < sequence; ++looks) {
    if (looks < 256) {
      pause_briefly();
    } else {
      std::this_thread::yield();
      nudge();
    }
  }
}

// While tasks are still being added the batch is left to grow.
bool Issuer::launch_stale() {
  const std::uint64_t steps = captured_.load(std::memory_order_relaxed);
  if (steps == 0 || test_faults().keep_batches_open.load(std::memory_order_relaxed))
    return false;
  const std::int64_t now = steady_nanoseconds();
  if (steps != seen_captured_) {
    seen_captured_ = steps;
    seen_at_ = now;
  } else if (now - seen_at_ > k_stale) {
    nudge();
  }
  return true;
}

bool Issuer::attend() {
  const bool open = launch_stale();
  const bool put_off = put_off_.load(std::memory_order_relaxed);
  if (put_off || handed_over_.exchange(false, std::memory_order_relaxed)) {
    {
      const std::lock_guard hold(lock_);
      if (leased_)
        return true;
      leased_ = true;
    }
    if (put_off)
      look_at_backlog();
    drain(nullptr);
  }
  return open || put_off_.load(std::memory_order_relaxed) || handed_over_.load(std::memory_order_relaxed);
}

void Issuer::refuse(TaskNode* task, FailureRef failure, bool ran) {
  task->body.reset();
  core_.finish(task, std::move(failure), ran, {});
}

// What a task reads may fail when a batch is launched for its sake.
FailureRef Issuer::failed_meanwhile(const TaskNode& task) {
  if (core_.late().none() || task.on_failed_input == OnFailedInput::run) [[likely]]
    return nullptr;
  return core_.failed_input(task);
}

void Issuer::issue(TaskNode* task) {
  Core::claim(task);
  FailureRef failure = core_.start(task);
  if (failure != nullptr)
    return refuse(task, std::move(failure), false);
  if (lost())
    return refuse(task, lost_failure(core_.record_of(task)), true);
  try {
    const cuda::DeviceScope on(device_.index);
    make_routes();
    const PositionSet needs = core_.needs(task);
    if (belongs_in_batch(*task))
      return issue_in_batch(task, needs);
    issue_direct(task, needs);
  } catch (...) {  // before the body was called
    refuse(task, caught(core_.record_of(task)), true);
  }
}

}  // namespace sluice::detail
