#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/counters.h>
#include <sluice/engine/detail/gpu_span.h>
#include <sluice/engine/detail/runner.h>
#include <sluice/engine/executor.h>
#include <sluice/engine/parallel.h>
#include <sluice/engine/position.h>
#include <sluice/engine/task.h>

namespace sluice {
struct EngineOptions;
}

namespace sluice::detail {

class Core;
struct TaskNode;
struct VarCore;

/// Where CPU tasks run. It gets tasks that may run now, and decides where, never when.
class CpuPolicy {
 public:
  virtual ~CpuPolicy() = default;
  /// Takes a ready task. May run it, if the policy runs tasks on pushing threads.
  virtual void submit(TaskNode* task) noexcept = 0;
  /// Puts a ready task, which lies in a queue already, into that of its new class too (it is marked k_twice). False if
  /// the policy knows no classes.
  virtual bool submit_again(TaskNode* task) noexcept {
    (void)task;
    return false;
  }
  /// Runs a ready task, which is marked k_twice, on this thread before it comes up in its queue. False if another has
  /// taken it. Only for policies that mark what is `submitted`.
  virtual bool run_ahead(TaskNode* task) {
    (void)task;
    return false;
  }
  virtual bool runs_ahead() const noexcept { return false; }
  /// Calls visit(task) for ready readers of `var` in classes below `wanted`, some hundred at most.
  virtual void visit_readers(const VarCore* var, Priority wanted, const std::function<void(TaskNode*)>& visit) {
    (void)var, (void)wanted, (void)visit;
  }
  /// Called before the first pushes: sees to a thread that runs tasks. True once there is one for good. Throws
  /// ThreadError where the system gives none, std::bad_alloc.
  virtual bool need_thread() { return true; }
  /// Called at the end of every outermost push on a thread.
  virtual void after_push() {}
  /// Whether the calling thread, outside tasks, may run a short body of its own here and now, in no queue's turn. Then
  /// end_at_once() follows it.
  virtual bool begin_at_once() noexcept { return false; }
  virtual void end_at_once() {}
  /// Called before a thread outside tasks waits: whatever this policy put off must run.
  virtual void before_wait() { after_push(); }
  /// Called again and again, every slice(), on a thread that waits, in a task or outside: where no workers run, what
  /// others left to be run is for it to run.
  virtual void while_waiting() {}
  virtual std::chrono::nanoseconds slice() const noexcept { return std::chrono::seconds(10); }
  /// True if the pushing thread waits for GPU work that a CPU task needs; false if that is left to a fence.
  virtual bool waits_for_gpu() const noexcept { return false; }
  /// See parallel_for.
  virtual void parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) = 0;
  /// A task's body on this thread is about to block, and has ceased to: another thread may take its place.
  virtual void before_block() {}
  virtual void after_block() {}
  /// How many bodies wait, if no thread can be had to run what lies ready; k_out_of_stack if the only one that can be
  /// had is the calling one, and bodies that wait on it have used up its stack.
  virtual int all_blocked() { return 0; }
  static constexpr int k_out_of_stack = -1;
  /// The number of the worker whose thread this is; -1 if it is no worker's.
  virtual int worker_here() const noexcept { return -1; }
  /// True on a user's thread that runs tasks too.
  virtual bool works_here() const noexcept { return false; }
  /// The calling thread runs tasks too from now on: while it waits, and when it has pushed more than its share.
  /// False if the policy knows no such thing, or the thread is one of its own.
  virtual bool attach() { return false; }
  virtual void detach() {}
  /// An attached thread runs up to `limit` tasks. How many it ran: 0 if there are none, or it is not attached.
  virtual int help(int limit) {
    (void)limit;
    return 0;
  }
  /// A thread is about to block until `done()`: true if the policy has blocked it instead, running tasks meanwhile,
  /// until then or for `limit`.
  virtual bool help_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
    (void)done, (void)limit;
    return false;
  }
  /// True if bodies are so short lately that what lies waiting should stay within the cache.
  virtual bool short_tasks() const noexcept { return false; }
  /// Calls visit(runner) for the threads that run bodies.
  virtual void visit_runners(const std::function<void(Runner)>& visit) { (void)visit; }
  /// What its threads are called, but for a number; "sluice" where it has none.
  virtual std::string_view thread_name() const noexcept { return "sluice"; }
  /// Called once everything has retired; no submit follows, but for restart().
  virtual void stop() = 0;
  /// After stop(): begins anew. Threads that attached themselves still are.
  virtual void restart() {}
  virtual int workers() const noexcept = 0;
  /// Adds what the policy itself counts.
  virtual void add_counters(EngineCounters&) const noexcept {}
};

/// Where GPU tasks run, and all that the engine asks of GPUs. Absent in a build without CUDA or without a GPU.
class GpuPolicy {
 public:
  virtual ~GpuPolicy() = default;
  /// Issues a ready task on a stream of its device, from this thread or from the one that holds the stream.
  virtual void submit(TaskNode* task) = 0;
  /// Tasks that were submitted, and rest (they are marked so), have become more urgent: puts them where their class
  /// belongs.
  virtual void sort_by_class() noexcept {}
  /// Calls core.run_fenced(task) once the GPU has passed `positions`. No thread of the CPU policy waits.
  virtual void fence(TaskNode* task, const PositionSet& positions) = 0;
  /// True while CPU tasks wait behind fences.
  virtual bool has_fences() const noexcept { return false; }
  /// Bytes of a GPU's memory; 0 if it cannot be had.
  virtual std::uint64_t memory_size(Device device) noexcept {
    (void)device;
    return 0;
  }
  virtual bool passed(Position position) const noexcept = 0;
  /// The same, having asked the driver; launches first what is held back. Does not wait.
  virtual bool ask(Position position) noexcept { return passed(position); }
  /// As passed(), but false for ever where the GPU was lost before it got there.
  virtual bool arrived(Position position) const noexcept { return passed(position); }
  /// Does the position lie on a stream of kind copy_in or copy_out? A policy that cannot tell says no.
  virtual bool on_copy_stream(Position position) const noexcept {
    (void)position;
    return false;
  }
  /// The host blocks until the GPU has passed `positions`. Throws CudaError.
  virtual void wait(const PositionSet& positions) = 0;
  /// Launches what is held back to be launched together: somebody is about to wait for it without calling wait().
  virtual void flush() {}
  /// wait() for a position that the GPU is known to have passed, though nobody has asked the driver.
  virtual void note_completed(Position position) {
    PositionSet positions;
    positions.add(position);
    wait(positions);
  }
  /// wait() for everything issued so far.
  virtual void wait_all() = 0;
  /// Adds what the policy itself counts.
  virtual void add_counters(EngineCounters&) const noexcept {}
  /// What the GPUs did for the tasks of that recording (TraceRecord::recording), as far as they have got. Does not
  /// wait.
  virtual std::vector<GpuSpan> take_trace(std::uint64_t recording) {
    (void)recording;
    return {};
  }
  /// Called once everything has retired.
  virtual void stop() = 0;
  /// After stop(): begins anew, with the positions that there are. Throws ThreadError.
  virtual void restart() {}
  /// The process ends, and everything has retired: threads of the policy's own call nobody any more. Waits for that
  /// until `deadline`.
  virtual void rest(std::chrono::steady_clock::time_point deadline) = 0;
};

/// Throws ValueError for more workers than can be had, or a core that the process may not use.
std::unique_ptr<CpuPolicy> make_cpu_policy(Core& core, const EngineOptions& options);
/// CPU tasks on the application's threads. Throws ValueError for a concurrency below 1.
std::unique_ptr<CpuPolicy> make_executor_policy(Core& core, const ExternalExecutor& executor);
/// Null in a build without CUDA.
std::unique_ptr<GpuPolicy> make_gpu_policy(Core& core, const EngineOptions& options);

}  // namespace sluice::detail
