#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <sluice/engine/detail/blocked.h>
#include <sluice/engine/detail/fence.h>
#include <sluice/engine/detail/float_mode.h>
#include <sluice/engine/detail/in_flight.h>
#include <sluice/engine/detail/late_failures.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/shards.h>
#include <sluice/engine/detail/stream.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/detail/this_thread.h>
#include <sluice/engine/detail/tracer.h>
#include <sluice/engine/engine.h>

namespace sluice::detail {

/// Of a thread that calls a body of that engine; without a task where the body is called once more.
inline Work work_of(Core& core, TaskNode* task) noexcept {
  return {.core = &core, .task = task, .task_origin = task == nullptr ? 0 : task->origin()};
}

[[noreturn]] void throw_recording(const char* what);
/// Throws ValueError if this thread records a region: what it would wait for has not been pushed.
inline void refuse_while_recording(const char* what) {
  if (this_thread().recording != nullptr) [[unlikely]]
    throw_recording(what);
}

[[noreturn]] void throw_in_gpu_body(const char* what);
/// Throws Deadlock in a GPU body, of whichever engine: what it would wait for might never begin.
inline void refuse_in_gpu_body(const char* what) {
  if (this_thread().gpu_body != nullptr) [[unlikely]]
    throw_in_gpu_body(what);
}

/// The engine behind its facade. It lives until the facade is gone and the last Var has retired, so that Vars may be
/// dropped at any time.
class Core {
 public:
  Core(Engine* facade, const EngineOptions& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  // -- Vars (var.cpp) --
  VarCore* new_var(const VarOptions& options);
  /// Drops a handle's count.
  void release_var(VarCore* var) noexcept;
  void freeze(const Var& var, bool frozen);

  // -- The protocol (protocol.cpp) --
  /// Fills a node from what the user wrote; checks Vars and devices. It is a handle's, from admit() on the engine's.
  TaskNode* make_task(const Task& task, TaskKind kind, Closure&& body, SourceLocation site);
  /// Counts the task among the live ones. Throws EngineStopped (and gives the node back) if the engine takes none.
  void admit(TaskNode* task);
  /// Queues the task in all its Vars at once and starts what is ready.
  void push(TaskNode* task);
  /// Ends all accesses, publishes the outcome, starts successors, gives the node back unless something names it.
  void finish(TaskNode* task, FailureRef failure, bool ran, Position position);

  // -- Running (run.cpp) --
  /// All accesses are granted.
  void ready(TaskNode* task) noexcept;
  /// Processes the tasks that became ready on this thread meanwhile; the next ones are processed as they come.
  static void run_ready(ThisThread& here) noexcept;
  /// Gives a CPU task that may run to the policy, once its group has a place for it.
  void submit_body(TaskNode* task);
  /// A CPU task whose GPU needs are met. A failed fence is the task's failure.
  void run_fenced(TaskNode* task, FailureRef failure);
  /// Runs a CPU task's body on this thread and finishes it.
  void run_on_cpu(TaskNode* task, int threads);
  /// For a claimed task: null if its body is to run, otherwise why it is skipped.
  FailureRef start(TaskNode* task);
  /// For whoever takes a task from a ready queue: false if another has taken it (it lay in two queues).
  static bool claim(TaskNode* task) noexcept;
  /// The same for whoever takes it from elsewhere than the queue where it lies linked by `next`.
  static bool claim_ahead(TaskNode* task) noexcept;
  bool stop_requested(const TaskNode& task) const noexcept;
  bool not_wanted(const TaskNode& task) const noexcept;
  /// True once the whole engine is being cancelled.
  bool cancelling() const noexcept { return cancelling_.load(std::memory_order_relaxed); }
  std::stop_token cancel_token() const { return cancels_.get_token(); }
  FailureRef cancelled(const TaskNode& task) const noexcept;
  /// GPU positions that `task` has to follow.
  PositionSet needs(const TaskNode* task) const;
  /// Null where there is no memory for it.
  std::shared_ptr<FailureRecord> record_of(const TaskNode* task) const noexcept;
  /// Why a task whose accesses are granted must not run; null if none of its inputs has failed.
  FailureRef failed_input(const TaskNode& task);
  /// What is wrong with a Var, for a task that has been granted it; null if nothing is.
  FailureRef failure_of(const VarCore& var);
  /// What writes the Var from now on comes after `position` too.
  void note_reader(VarCore& var, Position position) noexcept;

  // -- GPU tasks that fail after they have finished (late_failures.cpp) --
  /// See LateFailures::add(). To be called before the position counts as launched; of kernels, as passed.
  void fail_late(Position position, const FailureRef& failure, bool ran, const LateFailures::Uses& uses);
  LateFailures& late() noexcept { return late_; }

  // -- Coroutine bodies (coroutine.cpp) --
  /// Runs a coroutine body on this thread until it waits or ends; finishes the task in the second case.
  void run_coroutine(TaskNode* task);
  /// From before a coroutine waits until what it waits for has come.
  void suspends(Blocked& blocked);
  void resumes(Blocked& blocked) noexcept;
  static void drop_coroutine(TaskExtras& extras) noexcept;

  // -- Waiting without a thread (async_wait.cpp) --
  /// An async_probe's accesses have ended: ends its wait once the GPU has passed what came before.
  void conclude(TaskNode* task) noexcept;
  /// Tells its WaitObserver now, unless the wait was cancelled, and ends the node.
  void end_async_wait(TaskNode* task, FailureRef failure) noexcept;

  // -- Waiting (wait.cpp) --
  void wait(Access access);
  void wait_all();
  void wait_task(TaskNode* task);
  /// Blocks until the task is over for the host: a GPU's has been issued, its work may be under way. Outside tasks.
  void wait_issued(const TaskHandle& handle);
  void clear_error(const Var& var);
  void wait_positions(const PositionSet& positions);
  bool await_retirement();  // see EngineAccess::await_task
  void flush();
  void note_completed(Position position);
  void stop(Stop how);
  void restart();
  void stop_at_exit();                       // of the process: waits for what runs, but not for ever
  static void drain_all_at_exit() noexcept;  // all engines, which do not stop

  // -- Back-pressure (back_pressure.cpp) --
  /// For pushes from outside tasks: rests while too much memory is in flight, and if `counted`, which every so many
  /// pushes ask for, while too many tasks are alive. See EngineOptions.
  void hold_back(bool counted);
  bool is_crowded() const noexcept { return in_flight_.is_crowded(); }

  TaskNode* make_bodiless(Access access, TaskKind kind, TaskName name);
  /// Throws Deadlock if a task on this thread's stack holds what the topmost is about to wait for.
  void refuse_self_wait(Access access) const;

  /// Drops what `bit` stands for (k_handle, k_twice), perhaps the last that keeps a finished node.
  static void drop(TaskNode* task, std::uint32_t bit) noexcept;
  /// Ends the protocol for a node: finished, and given back unless something still names it.
  static void close_task(TaskNode* task) noexcept;
  static void recycle(TaskNode* task) noexcept;
  /// For a task that was never pushed: its handle alone keeps it.
  static void discard(TaskNode* task) noexcept;
  bool passed(const PositionSet& positions) const noexcept;
  /// A handle may outlive the engine. A finished CPU task needs it no more; of a GPU task it keeps the core, whose
  /// streams know the task's position.
  TaskHandle handle_of(TaskNode* task) noexcept {
    if (task->device.is_gpu())
      retain();
    return TaskHandle(task);
  }
  static void drop_handle(TaskNode* task) noexcept {
    Core* kept = task->device.is_gpu() ? task->core : nullptr;
    drop(task, TaskNode::k_handle);
    if (kept != nullptr)
      kept->release();
  }
  /// Of a finished task, also one that failed late; null if it did not.
  static FailureRef failure_of_task(const TaskNode& task);
  /// Waits until a group is empty.
  void wait_group(GroupState& group);
  /// Throws what the body of a finished task threw.
  static void rethrow_failure_of(const TaskNode& task);
  /// The same of a probe or a GPU task, once the GPU has passed it: it may have failed late.
  void rethrow_any_failure_of(const TaskNode& task);

  Engine* facade() const noexcept { return facade_.load(std::memory_order_acquire); }
  /// The Engine is being destroyed: stops; in one of its tasks, by a thread of its own.
  void end_facade() noexcept;
  CpuPolicy& cpu() noexcept { return *cpu_; }
  /// Null until the first task for a GPU: a program that uses none never wakes the driver.
  GpuPolicy* gpu() const noexcept { return gpu_.load(std::memory_order_acquire); }
  /// Made at need; null where there is no GPU. Throws CudaError.
  GpuPolicy* need_gpu();
  const EngineOptions& options() const noexcept { return options_; }
  /// Moved on in a forked child.
  std::uint8_t era() const noexcept { return era_; }
  /// How the thread that made the engine computes, and so its workers: not as the body that happens to wake one.
  FloatMode thread_mode() const noexcept { return thread_mode_; }
  void* extension_at(int id, std::shared_ptr<void> (*make)(Engine&));
  void on_memory_pressure(std::function<void(Device)> relieve);
  void relieve_memory(Device device);

  /// If somebody waits for the engine to drain: lets them look again. Idle workers call it.
  void let_waiters_look();
  EngineCounters counters() const noexcept;

  // -- Tracing (tracer.cpp) --
  void start_trace();
  Trace stop_trace();
  /// Null while no trace runs: the one branch that a push then pays.
  Tracer* tracing() const noexcept { return tracing_.load(std::memory_order_acquire); }

  std::atomic<std::uint64_t> random_seed{0}, random_offset{0};

  /// Ends one granted access.
  void leave(AccessNode& access);
  // What the protocol tells (protocol.cpp, var.cpp)
  void grant(AccessNode& access);
  void came_in(VarCore* var, const AccessNode& access) noexcept;
  void came_next(VarCore* var, AccessNode& access) noexcept;
  void came_together(VarCore* var, AccessNode* first) noexcept;
  void orphaned(VarCore* var) noexcept;
  void joined(VarCore* var);
  void idle(VarCore* var);  // with the lock held; gives it up
  // What a Var's life needs (var.cpp)
  void retire(VarCore* var) noexcept;  // no lock held
  static ReadGate<std::atomic<std::uint64_t>>* new_gate() noexcept;
  int hot_reads() const noexcept { return options_.hot_reads; }

  // -- Urgency (priority.cpp) --
  /// Makes what a queued task waits for as urgent as itself.
  void inherit_priority(TaskNode* task);
  /// Makes a task as urgent; kept if that changed it, and then raise_on() has to follow with no lock held.
  TaskNode* raise_one(TaskNode* task, Priority wanted);
  void raise_on(TaskNode* kept, Priority wanted);
  void inherit_from_runs(TaskNode& task) noexcept;  // whose turn it is: as urgent as what waits behind them
  /// A task's address with a tag of its generation; null once the node is another task's.
  static std::uint64_t tagged(const TaskNode* task) noexcept;
  static TaskNode* task_of(std::uint64_t tag, std::uint32_t& state) noexcept;

  // -- Forks (fork.cpp) --
  static void watch_forks(Core* core, bool alive);
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child(bool inside_task);
  void keep_stopped();
  /// In a forked child: makes a Var that the parent left in use free and, unless it was only read, failed.
  void renew(VarCore* var) noexcept;
  void enter_era(const Task& task);
  /// Before a push, until there is a thread that runs tasks, and in a forked child.
  void prepare_for_pushes(const Task& task, TaskKind kind);

  // -- All lists of Vars at rest, for whoever has to read them whole (pause.cpp) --
  void enter_lists(const ThisThread& here) noexcept {
    count_inside(counts(here).inside, here.owns_slot(), 1);
    light_fence(paused_);
    if (paused_.load(std::memory_order_relaxed) != 0 && here.lists_depth == 0) [[unlikely]]
      enter_lists_later(here);
    ++here.lists_depth;
  }
  void leave_lists(const ThisThread& here) noexcept {
    --here.lists_depth;
    count_inside(counts(here).inside, here.owns_slot(), -1);
  }
  void halt_lists();
  void resume_lists();
  /// How often waits in tasks were searched for a circle so far.
  std::uint64_t cycle_checks() const noexcept { return cycle_checks_.load(); }

 private:
  friend class AtOnceRun;  // at_once.cpp
  friend class OwnLaunch;
  void enter_lists_later(const ThisThread& here) noexcept;
  void keep_name(const TaskName& name, TaskNode& node);
  static void keep_estimates(const Task& task, TaskNode& node) noexcept;
  void inherit_from_pusher(const Task& task, TaskNode& node);
  static void ends_in_group(TaskNode& task, const FailureRef& failure, Position position) noexcept;
  void wait_probe(TaskNode* probe);
  struct Raised;
  void inherit_accesses(TaskNode& task, Priority wanted, Raised& raised);
  void inherit_var(AccessNode& access, Priority wanted, Raised& raised);
  void raise(TaskNode* task, Priority wanted, Raised& raised);
  void raise_holder(std::uint64_t tag, Priority wanted, Raised& raised);
  void inherit(VarCore* var, AccessNode* first, const AccessNode* end) noexcept;
  void settle_write(TaskNode* task, AccessNode& access, const FailureRef& failure, bool ran, Position position);
  void process(TaskNode* task) noexcept;
  void send_on(TaskNode* task);
  void give_up(TaskNode* task, FailureRef failure) noexcept;
  void note_and_finish(TaskNode* task);
  void wait_here(TaskNode* task, const PositionSet& positions);
  void enter_epoch(TaskNode* task);
  void leave_epoch(int epoch);
  CountShard& counts(const ThisThread& here) noexcept { return counts_[static_cast<std::size_t>(here.slot)]; }
  bool help_until(const std::function<bool()>& done, std::chrono::nanoseconds limit);
  bool drain(const std::function<bool()>& is_done);
  void take_turn();
  bool drain_epoch();  // false if there was nothing to wait for
  void count_wait() noexcept;
  bool epoch_empty(std::uint8_t epoch) const noexcept;
  void count_in_flight(const VarCore& var, int sign) noexcept;
  void keep_pace();
  struct Load;
  void rest(const Load& load);
  bool workers_lack_tasks() const noexcept;
  void judge(Restraint& restraint, std::uint64_t progress);
  std::uint64_t left() const noexcept;
  std::uint64_t live() const noexcept;
  void block_until(TaskNode* task);
  void refuse_child_wait(const TaskNode& child) const;
  bool sleep_on(TaskNode* task, std::chrono::nanoseconds limit);
  void block_in_task(TaskNode* task, TaskNode* awaited);
  /// Throws Deadlock if what the body waits for can only come after it, or nothing is left to run it.
  bool check_blocked(Blocked& blocked, bool for_long);
  /// Ends the wait of a suspended coroutine with Deadlock, if that can only end after it.
  void check_suspended() noexcept;
  template <class Check>
  bool search_cycles(Check check);
  /// In run_ahead.cpp: runs a task that a wait cannot end without. False if none is seen that lies ready.
  bool run_awaited(TaskNode* awaited);
  struct Follow;
  TaskNode* take_needed(TaskNode* task);
  TaskNode* take_needed(TaskNode* task, std::uint32_t state, Follow follow);
  TaskNode* take_member(GroupState& group, Follow follow);
  TaskNode* take_holder(const AccessNode& access, bool came_first, Follow follow);
  void note_failure(FailureRef failure) noexcept;
  void report_failures() noexcept;
  void end() noexcept;

  const EngineOptions options_;
  const FloatMode thread_mode_;
  const bool may_flush_;  // Task::denormals is heeded
  std::atomic<Engine*> facade_;
  Engine inside_;  // for rooms and late tasks: lives as long as the core
  std::atomic<int> references_{1};
  std::atomic<int> stopped_{0};
  std::atomic<std::uint32_t> stop_phase_{0};  // grows: runs, stops, has stopped, runs again
  std::atomic<bool> priorities_{false};       // a task of another class than normal was pushed
  std::atomic<bool> unready_{true};           // pushes come to prepare_for_pushes()
  std::uint8_t era_ = 0;                      // moved on in a forked child, while it has one thread
  bool forked_in_task_ = false;               // the child may only exec
  std::atomic<bool> cancelling_{false};
  std::stop_source cancels_;  // asked to stop once that is set
  std::atomic<std::uint64_t> next_var_id_{1};

  // wait_all: pushes count into the current epoch; a wait flips epochs twice and drains the old one each time.
  std::atomic<std::uint8_t> epoch_{0};
  Counts counts_;
  InFlight in_flight_;
  Restraint live_restraint_;   // of tasks alive
  std::mutex wait_all_mutex_;  // taken by take_turn(): who waits for it runs tasks
  std::mutex drained_mutex_;
  std::condition_variable drained_;
  std::atomic<int> drain_waiters_{0};
  /// While it lives, whoever finishes a task tells `drained_`; what finished before is seen by looking once more.
  void drain_for_exit();
  struct DrainWaiter {
    explicit DrainWaiter(Core& waited_for) : core(waited_for) {
      core.drain_waiters_.fetch_add(1);
      heavy_fence();
    }
    ~DrainWaiter() { core.drain_waiters_.fetch_sub(1); }
    DrainWaiter(const DrainWaiter&) = delete;
    DrainWaiter& operator=(const DrainWaiter&) = delete;
    Core& core;
  };

  // Changed while nobody checks for a cycle.
  std::mutex blocked_mutex_;
  BlockedList blocked_;
  std::atomic<int> suspended_{0};                                          // coroutines among them
  std::atomic<std::chrono::steady_clock::time_point> next_cycle_check_{};  // searches take a tenth of the time at most
  std::atomic<std::uint64_t> cycle_checks_{0};
  std::mutex pause_mutex_;
  std::atomic<std::uint32_t> paused_{0};

  std::mutex failures_mutex_;
  std::vector<FailureRef> failures_;
  std::size_t failures_pruned_at_ = 64;
  FailureRef failure_beyond_;  // the latest that was not kept, as too many were there
  std::uint64_t failures_beyond_ = 0;
  LateFailures late_;

  std::recursive_mutex extensions_mutex_;  // an extension may need another one
  std::array<std::atomic<void*>, k_max_slots> extension_pointers_{};
  std::array<std::shared_ptr<void>, k_max_slots> extensions_;
  std::mutex gpu_names_mutex_;
  std::set<std::string, std::less<>> gpu_names_;  // copied ones; streams and cached graphs tell of them, by address too
  std::mutex pressure_mutex_;
  std::vector<std::function<void(Device)>> pressure_hooks_;

  std::atomic<Tracer*> tracing_{nullptr};
  std::unique_ptr<Tracer> tracer_;

  std::atomic<GpuPolicy*> gpu_{nullptr};
  std::unique_ptr<GpuPolicy> gpu_owner_;
  std::unique_ptr<CpuPolicy> cpu_;
};

}  // namespace sluice::detail
