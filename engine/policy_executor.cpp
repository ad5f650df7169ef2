// CPU tasks on the application's executor.
#include <algorithm>
#include <chrono>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/policy_executor.h>
#include <sluice/engine/detail/stack_left.h>
#include <sluice/engine/detail/sweep.h>

namespace sluice::detail {

namespace {

constexpr int k_drain_tasks = 64;
constexpr auto k_drain_time = std::chrono::microseconds(100);
constexpr auto k_stall = std::chrono::milliseconds(1);
constexpr std::uint64_t k_ageing_pick = 64;  // every so many picks the lowest class comes first

/// Notices that work lies about and nobody takes it.
class Stall {
 public:
  bool seen(int queued, std::uint64_t picks) {
    const auto now = std::chrono::steady_clock::now();
    if (queued == 0 || picks != picks_) {
      picks_ = picks;
      since_ = now;
    }
    return queued > 0 && now - since_ >= k_stall;
  }
  /// The last pick was our own and says nothing of the others.
  void ours(std::uint64_t picks) noexcept { picks_ = picks; }

 private:
  std::uint64_t picks_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace

ExecutorPolicy::ExecutorPolicy(Core& core, ExternalExecutor executor) {
  require(executor.concurrency >= 1, [&] {
    return message("Engine: executor.concurrency = ", executor.concurrency, " is less than 1");
  });
  state_ = std::make_shared<State>(core, std::move(executor));
}

// Everything has retired; a handler may be on its way out, others may never have begun.
void ExecutorPolicy::stop() {
  Hold hold(state_->mutex);
  state_->stopped = true;
  ++state_->waiting;
  state_->changed.wait(hold, [&] { return state_->running == 0; });
  --state_->waiting;
  while (TaskNode* task = state_->take().task)  // has retired, and still lay here since it was run from elsewhere
    Core::claim(task);
}

void ExecutorPolicy::restart() {
  const Hold hold(state_->mutex);
  state_->stopped = false;
}

void ExecutorPolicy::submit(TaskNode* task) noexcept {
  const std::shared_ptr<State> state = state_;  // the task may end the engine before this returns
  Hold hold(state->mutex);
  task->submitted.store(true, std::memory_order_release);
  light_fence(task->submitted_fence());  // against raise(): one of the two sees the other
  state->append(task, state->lists, &TaskNode::next);
  state->tell_waiters();
  state->post_if_needed(hold);
}

void ExecutorPolicy::State::append(TaskNode* task, Lists& to, TaskNode* TaskNode::*link) {
  task->*link = nullptr;
  List& list = to[static_cast<std::size_t>(task->priority.load(std::memory_order_relaxed))];
  (list.tail == nullptr ? list.head : list.tail->*link) = task;
  list.tail = task;
  ++queued;
}

TaskNode* ExecutorPolicy::State::take_from(List& list, TaskNode* TaskNode::*link) {
  TaskNode* task = list.head;
  if (task == nullptr)
    return nullptr;
  list.head = task->*link;
  if (list.head == nullptr)
    list.tail = nullptr;
  --queued;
  return task;
}

ExecutorPolicy::Pick ExecutorPolicy::State::take() {
  if (queued == 0)
    return {};
  const bool aged = ++picks % k_ageing_pick == 0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::size_t at = aged ? lists.size() - 1 - i : i;
    if (TaskNode* task = take_from(raised[at], &TaskNode::next_boosted))
      return {task, true};
    if (TaskNode* task = take_from(lists[at], &TaskNode::next))
      return {task, false};
  }
  return {};
}

void ExecutorPolicy::State::tell_waiters() {
  if (waiting > 0)
    changed.notify_all();
}

// A handler that has not begun is enough: when it finds more than it takes, it posts the next one.
void ExecutorPolicy::State::post_if_needed(Hold& hold) {
  if (queued == 0 || posted > 0 || places() - resuming <= 0 || stopped)
    return;
  ++posted;
  hold.unlock();
  bool failed = false;
  try {
    executor.post([self = shared_from_this()] { self->drain(); });
  } catch (...) {  // out of memory: the next task, or a waiting thread, tries again
    failed = true;
  }
  hold.lock();
  posted -= failed ? 1 : 0;
}

void ExecutorPolicy::State::run(Pick pick, Hold& hold) {
  post_if_needed(hold);
  hold.unlock();
  const bool mine = pick.ahead ? Core::claim_ahead(pick.task) : Core::claim(pick.task);
  hold.lock();
  if (mine)
    run_claimed(pick.task, hold);
}

void ExecutorPolicy::State::run_claimed(TaskNode* task, Hold& hold) {
  Running body{.next = bodies};
  bodies = &body;
  hold.unlock();
  core.run_on_cpu(task, 1);
  hold.lock();
  Running** link = &bodies;
  while (*link != &body)
    link = &(*link)->next;
  *link = body.next;
  tell_waiters();
}

bool ExecutorPolicy::run_ahead(TaskNode* task) {
  if (!Core::claim_ahead(task))
    return false;
  const std::shared_ptr<State> state = state_;
  Hold hold(state->mutex);
  state->run_claimed(task, hold);
  if (++state->run_ahead >= std::max(k_sweep, state->queued))
    state->sweep();
  return true;
}

void ExecutorPolicy::State::sweep() {
  run_ahead = 0;
  for (List& list : lists) {
    int taken = 0;
    forget(take_finished(list.head, list.tail, taken));
    queued -= taken;
  }
}

// Each thread that the executor has is inside and waits on a stack that holds no more, and something lies ready that
// nobody has begun.
int ExecutorPolicy::all_blocked() {
  const Hold hold(state_->mutex);
  if (!stack_is_used_up() || state_->used_up + 1 < std::max(state_->running, state_->executor.concurrency))
    return 0;
  for (const List& list : state_->lists) {
    for (const TaskNode* task = list.head; task != nullptr; task = task->next) {
      if ((task->state.load(std::memory_order_acquire) & TaskNode::k_started) == 0)
        return k_out_of_stack;
    }
  }
  return 0;
}

// The executor may not have taken a handler for lack of memory.
void ExecutorPolicy::while_waiting() {
  Hold hold(state_->mutex);
  state_->post_if_needed(hold);
}

bool ExecutorPolicy::submit_again(TaskNode* task) noexcept {
  Hold hold(state_->mutex);
  state_->append(task, state_->raised, &TaskNode::next_boosted);
  state_->tell_waiters();
  state_->post_if_needed(hold);
  return true;
}

void ExecutorPolicy::visit_runners(const std::function<void(Runner)>& visit) {
  const Hold hold(state_->mutex);
  for (const Running* each = state_->bodies; each != nullptr; each = each->next)
    visit(each->runner);
}

void ExecutorPolicy::State::drain() {
  Hold hold(mutex);
  --posted;
  if (stopped || places() <= 0)
    return;
  ++running;
  ThisThread& here = this_thread();
  CpuPolicy* const pool_before = std::exchange(here.pool, &core.cpu());
  drain_until(std::chrono::steady_clock::now() + k_drain_time, hold);
  here.pool = pool_before;
  --running;
  post_if_needed(hold);
  tell_waiters();
}

void ExecutorPolicy::State::drain_until(std::chrono::steady_clock::time_point limit, Hold& hold) {
  for (int tasks = 0; tasks < k_drain_tasks && resuming == 0; ++tasks) {
    const Pick pick = take();
    if (pick.task == nullptr)
      break;
    run(pick, hold);
    if (std::chrono::steady_clock::now() >= limit)
      break;
  }
  if (queued == 0)
    let_waiters_look(hold);
}

void ExecutorPolicy::State::let_waiters_look(Hold& hold) {
  hold.unlock();
  core.let_waiters_look();
  hold.lock();
}

// -- Bodies, and the application's own handlers, that block on the executor's threads --

bool ExecutorPolicy::on_executor() const {
  return this_thread().pool == this || (state_->executor.runs_here && state_->executor.runs_here());
}

// A handler of the application's, with no body below it, need not wait for another thread.
int ExecutorPolicy::help(int limit) {
  State& state = *state_;
  if (this_thread().task != nullptr || !on_executor())
    return 0;
  Hold hold(state.mutex);
  int tasks = 0;
  for (; tasks < limit && state.queued > 0 && state.places() > 0; ++tasks)
    state.run_here(this_thread().below, false, hold);
  return tasks;
}

bool ExecutorPolicy::help_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
  State& state = *state_;
  if (!on_executor())
    return false;
  state.core.let_waiters_look();  // who waits for the tasks before this one
  Hold hold(state.mutex);
  state.help(done, limit, this_thread().pool == this, hold);
  return true;
}

void ExecutorPolicy::State::help(
    const std::function<bool()>& done, std::chrono::nanoseconds limit, bool in_drain, Hold& hold) {
  const auto end = std::chrono::steady_clock::now() + limit;
  TaskBelow below{this_thread().task, this_thread().below};
  const bool may_run = !stack_is_used_up();
  blocked += in_drain ? 1 : 0;
  used_up += may_run ? 0 : 1;
  Stall stall;
  while (!done() && std::chrono::steady_clock::now() < end) {
    post_if_needed(hold);
    const bool stalled = stall.seen(queued, picks);
    if (may_run && queued > 0 && places() > 0 && (stalled || (in_drain && blocked >= executor.concurrency))) {
      run_here(&below, in_drain, hold);
      stall.ours(picks);
      continue;
    }
    ++waiting;
    // Not everything that ends a wait comes past here, and the executor may be short of threads: hence the time limit.
    changed.wait_for(hold, k_stall);
    --waiting;
  }
  used_up -= may_run ? 0 : 1;
  if (!in_drain)
    return;
  ++resuming;
  ++waiting;
  changed.wait(hold, [&] { return places() > 0; });
  --waiting;
  --resuming;
  --blocked;
}

// Outside the drain handlers, or on top of a body that waits in one.
void ExecutorPolicy::State::run_here(TaskBelow* below, bool in_drain, Hold& hold) {
  ThisThread& here = this_thread();
  TaskBelow* const below_before = std::exchange(here.below, below);
  CpuPolicy* const pool_before = std::exchange(here.pool, &core.cpu());
  (in_drain ? blocked : running) += in_drain ? -1 : 1;
  run(take(), hold);
  if (queued == 0)
    let_waiters_look(hold);
  (in_drain ? blocked : running) += in_drain ? 1 : -1;
  here.pool = pool_before;
  here.below = below_before;
}

// -- parallel_for --

/// One parallel_for. Threads that come too late find it closed.
struct ExecutorPolicy::Job {
  Job(std::int64_t items, std::int64_t step, void* given, RangeFunction run)
      : caller(this_thread()),
        mode(LoopMode::of(this_thread().mode)),
        n(items),
        chunk(step),
        context(given),
        body(run) {}

  Work caller;
  const LoopMode mode;
  const std::int64_t n, chunk;
  void* const context;
  const RangeFunction body;
  std::atomic<std::int64_t> next{0};
  int helpers = 0;  // under the state's mutex, as is `closed`
  bool closed = false;
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() noexcept {
    ThisThread& here = this_thread();
    const LoopScope loop(here, caller);
    const HelperMode helper(here.mode, mode);
    for (std::int64_t begin = next.fetch_add(chunk); begin < n; begin = next.fetch_add(chunk)) {
      try {
        body(context, begin, std::min(begin + chunk, n));
      } catch (...) {
        next.store(n);
        const std::lock_guard hold(error_mutex);
        if (error == nullptr)
          error = std::current_exception();
      }
    }
  }
};

void ExecutorPolicy::State::assist(Job& job) {
  Hold hold(mutex);
  if (job.closed || places() <= 0)
    return;
  ++running;
  ++job.helpers;
  hold.unlock();
  job.work();
  hold.lock();
  --running;
  --job.helpers;
  post_if_needed(hold);
  tell_waiters();
}

void ExecutorPolicy::parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) {
  const std::shared_ptr<State> state = state_;
  Hold hold(state->mutex);
  const std::int64_t most = state->executor.concurrency;
  const std::int64_t chunk = std::max(grain, (n + 4 * most - 1) / (4 * most));
  const std::int64_t helpers = std::min<std::int64_t>(state->places(), (n - 1) / chunk);
  hold.unlock();
  if (helpers <= 0)
    return run(context, 0, n);
  const auto job = std::make_shared<Job>(n, chunk, context, run);
  job->caller.core = &state->core;
  try {
    for (std::int64_t i = 0; i < helpers; ++i)
      state->executor.post([state, job] { state->assist(*job); });
  } catch (...) {  // fewer helpers, then
  }
  job->work();
  hold.lock();
  job->closed = true;
  ++state->waiting;
  state->changed.wait(hold, [&] { return job->helpers == 0; });
  --state->waiting;
  hold.unlock();
  if (job->error != nullptr)
    std::rethrow_exception(std::exchange(job->error, nullptr));
}

std::unique_ptr<CpuPolicy> make_executor_policy(Core& core, const ExternalExecutor& executor) {
  return std::make_unique<ExecutorPolicy>(core, executor);
}

}  // namespace sluice::detail
