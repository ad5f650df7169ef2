#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/executor.h>

namespace sluice::detail {

struct TaskBelow;

/// CPU tasks on an executor of the application. A body that blocks gives its place to another drain handler; once all
/// places are blocked, or the executor does not come to a handler that was posted, whoever waits on a thread of the
/// executor runs ready tasks itself. So an executor of one thread goes on, but a body then runs on top of the one that
/// waits; if it waits in turn for what can only come after that one, or for what the stack would not hold, it gets
/// Deadlock.
class ExecutorPolicy final : public CpuPolicy {
 public:
  ExecutorPolicy(Core& core, ExternalExecutor executor);

  void submit(TaskNode* task) noexcept override;
  bool submit_again(TaskNode* task) noexcept override;
  bool run_ahead(TaskNode* task) override;
  bool runs_ahead() const noexcept override { return true; }
  void parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) override;
  int help(int limit) override;
  bool help_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) override;
  void while_waiting() override;
  int all_blocked() override;
  std::chrono::nanoseconds slice() const noexcept override { return std::chrono::milliseconds(100); }
  void stop() override;
  void restart() override;
  int workers() const noexcept override { return state_->executor.concurrency; }
  void visit_runners(const std::function<void(Runner)>& visit) override;

 private:
  struct Job;
  struct List {
    TaskNode* head = nullptr;
    TaskNode* tail = nullptr;
  };
  using Lists = std::array<List, 4>;
  struct Pick {
    TaskNode* task = nullptr;
    bool ahead = false;  // it still lies in its own queue
  };
  using Hold = std::unique_lock<std::mutex>;
  bool on_executor() const;

  /// A thread that runs a body, on its stack.
  struct Running {
    Runner runner = Runner::here();
    Running* next = nullptr;
  };

  /// Shared with the handlers that were posted, which may run, and find nothing, after the engine is gone.
  struct State : std::enable_shared_from_this<State> {
    State(Core& engine, ExternalExecutor external) : core(engine), executor(std::move(external)) {}

    // All with the mutex held.
    void append(TaskNode* task, Lists& to, TaskNode* TaskNode::*link);
    TaskNode* take_from(List& list, TaskNode* TaskNode::*link);
    Pick take();
    void sweep();
    int places() const noexcept { return executor.concurrency - running + blocked; }
    void post_if_needed(Hold& hold);
    void run(Pick pick, Hold& hold);
    void run_claimed(TaskNode* task, Hold& hold);
    void tell_waiters();

    void drain();
    void drain_until(std::chrono::steady_clock::time_point limit, Hold& hold);
    void let_waiters_look(Hold& hold);
    void run_here(TaskBelow* below, bool in_drain, Hold& hold);
    void help(const std::function<bool()>& done, std::chrono::nanoseconds limit, bool in_drain, Hold& hold);
    void assist(Job& job);

    Core& core;
    const ExternalExecutor executor;
    std::mutex mutex;
    std::condition_variable changed;
    Lists lists;
    Lists raised;  // tasks that lie in `lists` too, or did when they were put here
    Running* bodies = nullptr;
    std::uint64_t picks = 0;
    int queued = 0;
    int run_ahead = 0;  // tasks since the last sweep
    int running = 0;    // threads inside: drain handlers, and others that run a task
    int blocked = 0;    // of these: those that wait inside a body
    int resuming = 0;   // of those: want to go on
    int used_up = 0;    // threads that wait where their stack holds no more bodies
    int posted = 0;     // drain handlers that have not begun
    int waiting = 0;    // threads at `changed`
    bool stopped = false;
  };

  std::shared_ptr<State> state_;
};

}  // namespace sluice::detail
