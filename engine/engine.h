#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <sluice/engine/closure.h>
#include <sluice/engine/counters.h>
#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/engine/options.h>
#include <sluice/engine/queue.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>
#include <sluice/engine/var.h>

namespace sluice {

class AsyncWait;
namespace detail {
class Core;
struct EngineAccess;
struct TaskNode;
}  // namespace detail
class Trace;

/// What a task runs: called as body(Queue) or as body(), returns nothing, or a Coroutine.
template <class Body>
concept TaskBody = std::invocable < std::decay_t<Body>
&, Queue > || std::invocable<std::decay_t<Body>&>;

/// How a task stands. waiting: for its Vars, or for a thread. running: its body has begun, a coroutine perhaps is
/// suspended, or what the body left to others is not done; of a GPU task: it was given to the GPU. failed: its body
/// threw, or it was skipped because what it needs failed. cancelled: it failed with Cancelled.
enum class TaskStatus : std::uint8_t { waiting, running, finished, failed, cancelled };

/// Names a pushed task. May be dropped: the task runs all the same.
class SLUICE_API TaskHandle {
 public:
  TaskHandle() = default;
  TaskHandle(const TaskHandle&) = delete;
  TaskHandle& operator=(const TaskHandle&) = delete;
  TaskHandle(TaskHandle&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  TaskHandle& operator=(TaskHandle&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~TaskHandle();

  /// Asks that the body not be run. True if that will be so; what the task should have written then holds Cancelled
  /// (`write` Vars keep their value, one update missing). False if it has started, and is told by
  /// Queue::stop_requested(), or has finished.
  /// A coroutine body that has started: true if it is suspended, then its co_await throws Cancelled; false if it runs,
  /// then its next co_await throws, if it comes to one. What it does with Cancelled is its own affair.
  bool cancel();
  /// Blocks until the task has finished (GPU: until its work is done). Rethrows what its body threw. Inside a task it
  /// waits as Engine::wait() does there.
  void wait();
  /// Whether wait() would return at once. Never blocks: of a GPU task it asks the driver, once what is held back has
  /// been launched.
  bool done() const;
  /// How the task stands at this moment. Costs as much as done(), of a task that failed some microseconds.
  TaskStatus status() const;

 private:
  friend class detail::Core;
  explicit TaskHandle(detail::TaskNode* adopted) noexcept : node_(adopted) {}
  detail::TaskNode* node_ = nullptr;
};

/// How an engine stops. drain: every task runs. cancel: bodies not begun are skipped (Cancelled), except of tasks with
/// OnFailedInput::run; running ones are asked to end (Queue::stop_requested).
enum class Stop : std::uint8_t { drain, cancel };

/// A block of random numbers handed out at push: counter-based, so the numbers depend on the order of pushes alone,
/// never on threads or device (Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
struct RandomBlock {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // first counter of the block
};

/// Runs tasks in an order that no program can tell from the order of their pushes. Reads of a Var share, writes
/// exclude. Any thread may push, but not while another destroys the engine. The host blocks in wait(), wait_all() and
/// TaskHandle::wait(), and in push() where EngineOptions::max_live_tasks and max_bytes_in_flight say so.
class SLUICE_API Engine {
 public:
  Engine() : Engine(EngineOptions{}) {}
  /// Throws ValueError for a value that is none of its enumeration's, a negative number, a core that the process may
  /// not use, or a variable of the environment that is not as it must be.
  explicit Engine(EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Drains: waits for every task, then stops. Failures nobody asked about: EngineOptions::report_failures. Inside a
  /// task of this engine, which it cannot wait for, a thread in the background does so: the engine takes no pushes from
  /// then on. Where the system gives no such thread, the tasks run to their end, and the workers stay.
  ~Engine();

  /// The engine of the innermost EngineScope of this thread, of the task that runs here, or the default engine
  /// (made at first use, never destroyed).
  static Engine& current();

  Var new_var(const VarOptions& options = {});

  /// Gives the engine a task: returns without waiting for it; the body runs when every access is granted. A CPU body
  /// runs on a worker; a GPU body may run inside push and only enqueues. From outside tasks it may rest first
  /// (EngineOptions::max_live_tasks, max_bytes_in_flight). Throws ValueError for a Var of another engine, an empty one,
  /// or a frozen one to be written, DeviceError for a device that is not there, EngineStopped after stop(), Forked
  /// where a child may not.
  template <TaskBody Body>
  TaskHandle push(const Task& task, Body&& body, SourceLocation site = SourceLocation::current()) {
    return push_closure(task, Closure(std::forward<Body>(body)), site);
  }

  /// Blocks until everything pushed before this call that writes `var` has finished, GPU work included. Rethrows
  /// the error that `var` carries: an Error as itself, anything else nested in TaskFailed.
  /// Inside a task the thread meanwhile runs what it waits for on its own stack, on top of the waiting body: tasks that
  /// are ready and without which this wait cannot end (under CpuMode::serial and chaos all that are ready). So do not
  /// wait there while holding a lock that they take. Throws Deadlock for a wait that could never end.
  void wait(const Var& var) { wait(read(var)); }
  /// As above; `write(var)` waits for earlier readers too.
  void wait(Access access);
  /// Waits like wait() without a thread, in a coroutine body: `co_await engine.async_wait(var)` (coroutine.h). Throws
  /// ValueError for an empty Var or one of another engine.
  AsyncWait async_wait(const Var& var) const;
  AsyncWait async_wait(Access access) const;
  /// Waits like wait() without a thread, for any Asio completion token of signature void(std::exception_ptr):
  /// `co_await engine.async_wait(var, boost::asio::use_awaitable)`. Defined in <sluice/engine/asio.h>; see there.
  template <class Token>
  auto async_wait(const Var& var, Token&& token);
  template <class Token>
  auto async_wait(Access access, Token&& token);

  /// Blocks until every task pushed before this call has finished, GPU work included. What is pushed meanwhile, by
  /// other threads or by those tasks, it may wait for or not: to cover what tasks push in turn, see TaskGroup. Throws
  /// the earliest failure that no wait has reported yet; each failure is reported once.
  void wait_all();

  /// Declares the failure behind `error` dealt with: Vars that merely miss an update because of it are clean again.
  /// Vars whose value was lost stay failed until they are overwritten. True if the error came from a task.
  bool forgive(const Error& error) noexcept;
  /// Makes `var` clean, whatever value it holds. Waits for its earlier tasks.
  void clear_error(const Var& var);

  /// Makes `var` read-only for all later pushes, until unfreeze(): pushing a task that writes it throws ValueError.
  /// Earlier writers still run. Reads of a frozen Var never meet at a lock: for weights and constants.
  void freeze(const Var& var);
  void unfreeze(const Var& var);

  /// Waits for all tasks, or cancels them, and refuses further pushes (EngineStopped); what running tasks push is
  /// still taken. Vars may be dropped at any time. Throws Deadlock inside a task of this engine.
  void stop(Stop how = Stop::drain);

  /// After stop(), once that has returned, the engine takes pushes again: with its options, its Vars and what they
  /// hold, its random numbers, threads of its own made anew, threads attached as before. Not while another thread uses
  /// the engine. Throws ValueError if it has not stopped, Deadlock inside a task of this engine, ThreadError if it has
  /// used GPUs and the thread that watches them cannot be had: then it is stopped still.
  void restart();

  int workers() const noexcept;
  EngineCounters counters() const noexcept;

  /// From here on every push is recorded, until stop_trace(): some 200 bytes a task. Any thread may call it at any
  /// time. Throws ValueError if a trace is running already.
  void start_trace();
  /// Ends the recording and returns the tasks pushed meanwhile, each as far as it has got: call wait_all() before to
  /// see them to their end. Does not wait. Throws ValueError if no trace is running.
  Trace stop_trace();
  bool tracing() const noexcept;

  /// Restarts the random numbers: same seed and same pushes, same numbers.
  void seed(std::uint64_t seed) noexcept;
  /// Takes `counters` Philox counters (four 32-bit numbers each).
  RandomBlock take_random(std::uint64_t counters) noexcept;
  /// Where the random numbers stand: the block that take_random() would begin next.
  RandomBlock random_state() const noexcept;
  /// Goes on from random_state(), of this engine or another: the same pushes take the same numbers from here on. Not
  /// while another thread pushes what draws numbers.
  void set_random_state(const RandomBlock& state) noexcept;

  /// Begins what was put off: CPU tasks left for this thread to run, GPU work held back to be launched together. Does
  /// not wait. For those who wait by other means than this class.
  void flush();

  /// A room's own object beside this engine, made as T(engine) at first use and destroyed with the engine's core,
  /// that is after the last Var. That `engine` lives as long, and is this one in all but its address. The engine knows
  /// nothing of T.
  template <class T>
  T& extension() {
    return *static_cast<T*>(extension_at(
        detail::slot_id<T>, [](Engine& engine) { return std::shared_ptr<void>(std::make_shared<T>(engine)); }));
  }

 private:
  friend class detail::Core;
  friend struct detail::EngineAccess;
  explicit Engine(detail::Core* inside) noexcept;
  TaskHandle push_closure(const Task& task, Closure&& body, SourceLocation site);
  void check_awaited(Access access) const;
  void* extension_at(int id, std::shared_ptr<void> (*make)(Engine&));

  detail::Core* core_;
  const bool owns_core_;
};

/// While it lives, the calling thread works for `engine`: it runs ready CPU tasks when it waits outside tasks, and
/// inside push: 64 after every 64 while bodies take some hundred nanoseconds, otherwise one whenever 256 lie ready. No
/// other thread of the user's ever runs tasks inside push. Do not push while holding a lock that tasks take. Short
/// tasks are left to it: if it neither pushes on nor waits, workers take them after a millisecond or two. One engine at
/// a time: a second scope on the thread does nothing, nor does one under a policy without workers of its own.
class SLUICE_API AttachScope {
 public:
  explicit AttachScope(Engine& engine);
  AttachScope(const AttachScope&) = delete;
  AttachScope& operator=(const AttachScope&) = delete;
  ~AttachScope();

 private:
  Engine* engine_ = nullptr;
};

/// Makes `engine` the current engine of this thread while it lives.
class SLUICE_API EngineScope {
 public:
  explicit EngineScope(Engine& engine) noexcept;
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;
  ~EngineScope();

 private:
  Engine* before_;
};

}  // namespace sluice
