#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/detail/failure.h>
#include <sluice/engine/task_name.h>
#include <sluice/engine/trace.h>

namespace sluice::detail {

class Core;
class Tracer;
struct TaskNode;

/// What is noted of one task. Its pusher fills it; whoever makes the task ready, runs and finishes it adds the rest,
/// while stop() may be reading.
struct TraceRecord {
  Tracer* tracer = nullptr;
  std::uint64_t recording = 0;  // number of the start() that it belongs to
  TaskName name;
  SourceLocation site;
  Device device;
  Priority priority = Priority::normal;
  int pusher = -1;
  std::int64_t pushed = 0;
  std::uint64_t bytes = 0, work = 0;
  boost::container::small_vector<TraceVar, 4> vars;

  std::atomic<std::uint64_t> order{0};  // of pushes; 0 = not queued in its Vars yet
  std::atomic<std::int64_t> ready{-1};
  std::atomic<std::int64_t> started{-1};
  std::atomic<int> worker{-1};
  std::atomic<TaskOutcome> outcome{TaskOutcome::unfinished};
  std::atomic<std::int64_t> ended{-1};  // set last: the task does not touch the record again
};

/// Records of one thread, in chunks linked in order of time. The thread fills the last chunk and never looks back; the
/// tracer reads from the first and frees chunks that are full, read and done with.
class TraceBuffer {
 public:
  explicit TraceBuffer(int row) : row_(row) {}
  TraceBuffer(const TraceBuffer&) = delete;
  TraceBuffer& operator=(const TraceBuffer&) = delete;
  ~TraceBuffer() { clear(); }

  /// Index of the thread in its tracer.
  int row() const noexcept { return row_; }

  /// Owner: the record that publish() will show to readers.
  TraceRecord& next();
  void publish() noexcept;

  /// Tracer: calls visit(record) for what was published since the last call, then frees what it can.
  template <class Visit>
  void read(Visit&& visit) {
    for (Chunk* chunk = first_.load(std::memory_order_acquire); chunk != nullptr;
         chunk = chunk->next.load(std::memory_order_acquire)) {
      const std::uint32_t used = chunk->used.load(std::memory_order_acquire);
      for (; chunk->read < used; ++chunk->read)
        visit(chunk->records[chunk->read]);
    }
    free_done();
  }
  /// True if no task that has not finished writes here.
  bool all_ended() const noexcept;
  /// Frees everything: nobody writes any more.
  void clear() noexcept;

 private:
  static constexpr std::uint32_t k_records = 128;
  struct Chunk {
    std::array<TraceRecord, k_records> records;
    std::atomic<std::uint32_t> used{0};
    std::atomic<Chunk*> next{nullptr};
    std::uint32_t read = 0;  // the tracer's
    bool ended() const noexcept;
  };
  void free_done() noexcept;

  const int row_;
  Chunk* last_ = nullptr;  // the owner's
  std::atomic<Chunk*> first_{nullptr};
};

/// Records the tasks of one engine. Lives as long as the core, whether it records or not, so that a pusher that was
/// late to see the end of a recording writes to something that is still there.
class Tracer {
 public:
  explicit Tracer(Core& core);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer();

  /// The core's pointer to the tracer is what turns the hooks on and off. Both throw ValueError out of turn.
  void start(std::atomic<Tracer*>& hooks);
  Trace stop(std::atomic<Tracer*>& hooks);

  // Hooks, in the order in which a task meets them. All but the first only where task.traced.
  void pushed(TaskNode& task) noexcept;
  static void queued(
      TaskNode& task) noexcept;  // its place in the order of pushes is fixed, and not yet known to others
  static void ready(TaskNode& task) noexcept;
  static void started(TaskNode& task) noexcept;
  /// Before successors are let go; forgets the record.
  static void finished(TaskNode& task, const FailureRef& failure, bool ran) noexcept;

  /// What is no task and shows beside them, from here to end_span(), which must be called while the tracer lives. Null
  /// for lack of memory.
  TraceRecord* begin_span(const TaskName& name, SourceLocation site) noexcept;
  static void end_span(TraceRecord& record) noexcept;

 private:
  struct Seat {  // a thread's row
    std::uint64_t thread = 0;
    TraceThread shown;
  };
  TraceBuffer* buffer_of_this_thread() noexcept;
  std::shared_ptr<TraceBuffer> join();
  void note(TaskNode& task, TraceBuffer& buffer);
  TraceEvent event_of(const TraceRecord& record) const;

  Core& core_;
  const std::uint64_t id_;  // of the process's tracers: addresses come back, numbers do not
  std::atomic<std::uint64_t> recording_{0};
  alignas(64) std::atomic<std::uint64_t> order_{0};

  alignas(64) std::mutex mutex_;
  std::vector<std::shared_ptr<TraceBuffer>> buffers_;
  std::vector<Seat> seats_;
  std::int64_t began_ = 0;
};

}  // namespace sluice::detail
