#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/shards.h>
#include <sluice/engine/detail/stream.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/engine.h>

namespace sluice::detail {

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

  // -- The protocol (protocol.cpp) --
  /// Fills a node from what the user wrote; checks Vars, devices and that the engine takes pushes.
  TaskNode* make_task(const Task& task, TaskKind kind, Closure&& body, SourceLocation site);
  /// Queues the task in all its Vars at once and starts what is ready. Consumes one reference of the node.
  void push(TaskNode* task);
  /// Counts the task among the live ones. Throws EngineStopped (and drops the run reference) if the engine takes none.
  void admit(TaskNode* task);
  /// Ends all accesses, publishes the outcome, starts successors, drops the running reference.
  void finish(TaskNode* task, FailureRef failure, bool ran, Position position);

  // -- Running (run.cpp) --
  /// All accesses are granted.
  void ready(TaskNode* task);
  /// A CPU task whose GPU needs are met. A failed fence is the task's failure.
  void run_fenced(TaskNode* task, FailureRef failure);
  /// Runs a CPU task's body on this thread and finishes it.
  void run_on_cpu(TaskNode* task, int threads);
  /// Claims the task: null if its body is to run, otherwise why it is skipped. `cancelled` tells the reason.
  FailureRef start(TaskNode* task);
  /// GPU positions that `task` has to follow.
  PositionSet needs(const TaskNode* task) const;
  std::shared_ptr<FailureRecord> record_of(const TaskNode* task) const;

  // -- Waiting (wait.cpp) --
  void wait(Access access);
  void wait_all();
  void wait_task(TaskNode* task);
  void clear_error(const Var& var);
  void wait_positions(const PositionSet& positions);
  void stop(bool limited);

  static void release_task(TaskNode* task) noexcept;
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
    release_task(task);
    if (kept != nullptr)
      kept->release();
  }
  /// Throws what the body of a finished task threw.
  static void rethrow_failure_of(const TaskNode& task);

  Engine* facade() const noexcept { return facade_.load(std::memory_order_acquire); }
  void clear_facade() noexcept { facade_.store(nullptr, std::memory_order_release); }
  CpuPolicy& cpu() noexcept { return *cpu_; }
  /// Null until the first task for a GPU: a program that uses none never wakes the driver.
  GpuPolicy* gpu() const noexcept { return gpu_.load(std::memory_order_acquire); }
  /// Made at need; null where there is no GPU. Throws CudaError.
  GpuPolicy* need_gpu();
  const EngineOptions& options() const noexcept { return options_; }
  void* extension_at(int id, Engine& engine, std::shared_ptr<void> (*make)(Engine&));
  void on_memory_pressure(std::function<void(Device)> relieve);
  void relieve_memory(Device device);

  /// If somebody waits for the engine to drain: lets them look again. Idle workers call it.
  void let_waiters_look();
  EngineCounters counters() const noexcept;
  std::atomic<std::uint64_t> random_seed{0}, random_offset{0};

 private:
  void set_idle(VarCore* var);         // with the lock held; gives it up
  void retire(VarCore* var) noexcept;  // no lock held
  void advance(VarCore* var);
  void finish_read(VarCore* var);
  void grant(AccessNode* access);
  static bool append(AccessNode* access);
  void settle(TaskNode* task, AccessNode& access, const FailureRef& failure, bool ran, Position position);
  void process(TaskNode* task);
  void wait_here(TaskNode* task, const PositionSet& positions);
  void enter_epoch(TaskNode* task);
  void leave_epoch(int epoch);
  void drain_epoch();
  bool epoch_empty(std::uint8_t epoch) const noexcept;
  void block_until(TaskNode* task);
  void refuse_self_wait(Access access) const;
  void refuse_child_wait(const TaskNode& child) const;
  void note_failure(FailureRef failure);

  const EngineOptions options_;
  std::atomic<Engine*> facade_;
  std::atomic<int> references_{1};
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> next_var_id_{1};

  // wait_all: pushes count into the current epoch; a wait flips epochs twice and drains the old one each time.
  std::atomic<std::uint8_t> epoch_{0};
  Counts counts_;
  std::mutex wait_all_mutex_;
  std::mutex drained_mutex_;
  std::condition_variable drained_;
  std::atomic<int> drain_waiters_{0};

  std::mutex failures_mutex_;
  std::vector<FailureRef> failures_;

  std::recursive_mutex extensions_mutex_;  // an extension may need another one
  std::array<std::atomic<void*>, k_max_slots> extension_pointers_{};
  std::array<std::shared_ptr<void>, k_max_slots> extensions_;
  std::mutex pressure_mutex_;
  std::vector<std::function<void(Device)>> pressure_hooks_;

  std::atomic<GpuPolicy*> gpu_{nullptr};
  std::unique_ptr<GpuPolicy> gpu_owner_;
  std::unique_ptr<CpuPolicy> cpu_;
};

/// What runs on this thread.
struct ThisThread {
  Engine* scope = nullptr;         // innermost EngineScope
  Core* core = nullptr;            // engine of the running task
  TaskNode* task = nullptr;        // running task
  TaskNode* ready_head = nullptr;  // ready tasks put off until the outermost grant on this thread returns
  TaskNode* ready_tail = nullptr;
  bool draining = false;
  int push_depth = 0;
  bool in_parallel = false;
  void* pool_worker = nullptr;  // PoolPolicy's record of this thread
  CpuPolicy* pool = nullptr;    // whose worker it is
  int leaves = 0;
};
inline thread_local ThisThread this_thread_state;
inline ThisThread& this_thread() noexcept {
  return this_thread_state;
}

}  // namespace sluice::detail
