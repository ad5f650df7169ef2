#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>

namespace sluice {

/// How a traced task ended. unfinished: it had not when the trace was stopped.
enum class TaskOutcome : std::uint8_t { unfinished, ok, failed, skipped, cancelled };

/// "ok", "failed" and so on; the names that files carry.
SLUICE_API const char* to_string(TaskOutcome outcome) noexcept;

/// One Var of a traced task: Var::id() and the stronger mode where the task names it twice.
struct TraceVar {
  std::uint64_t id = 0;
  AccessMode mode = AccessMode::read;
};

/// One task of a trace. Times are nanoseconds since the trace began, -1 for what had not happened when it was stopped:
/// pushed <= ready (every access granted) <= started <= ended. A GPU task starts when the stream comes to it and ends
/// when its work is done there; the host issued it from `issued` to `issue_ended`. Device times are the host's clock to
/// some microseconds; on one GPU their order is exact. Where a GPU task has no `issued`, the host's times of issue
/// stand for it (skipped, failed before its body, or the driver gave no times).
struct TraceEvent {
  std::string name = {};
  SourceLocation site = {};  // Origin::of(site) says on whose behalf, where somebody did
  Device device = {};
  Priority priority = Priority::normal;
  TaskOutcome outcome = TaskOutcome::unfinished;
  int pusher = -1;  // Trace::threads()
  int worker = -1;  // the thread that ran or skipped it, or the GPU's stream
  std::int64_t pushed = -1;
  std::int64_t ready = -1;
  std::int64_t started = -1;
  std::int64_t ended = -1;
  std::vector<TraceVar> vars = {};
  int issuer = -1;  // GPU: the thread that issued it
  std::int64_t issued = -1;
  std::int64_t issue_ended = -1;
  int batch = -1;           // GPU: index in Trace::batches(), whose times stand for those of the task
  std::uint64_t bytes = 0;  // Task::bytes and work, estimates; 0: not known
  std::uint64_t work = 0;
};

/// A thread that pushed or ran traced tasks, or a stream of a GPU: "gpu(0) compute 2", "gpu(0) copy in".
struct TraceThread {
  std::string name = {};
  bool worker = false;  // of the traced engine's pool, or attached to it
  bool stream = false;
};

/// GPU tasks that were launched together, as one graph: the GPU tells when all of them began and ended.
struct TraceBatch {
  int worker = -1;  // Trace::threads(): the stream
  std::int64_t started = -1;
  std::int64_t ended = -1;
  std::vector<std::size_t> tasks = {};  // Trace::events(), in order of push

  /// "batch of 12".
  std::string name() const { return "batch of " + std::to_string(tasks.size()); }
};

/// A task that had to wait for another one: indices of Trace::events(), and the Vars because of which.
struct TraceEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::vector<std::uint64_t> vars = {};
};

/// How write_svg() draws.
struct TraceSvgOptions {
  int width = 1200;
  bool arrows = true;  // dependencies, from the end of one task to the start of the other
};

/// What an engine did between start_trace() and stop_trace(): every task pushed in between, in an order of pushes that
/// all Vars agree with. Writers throw FileError for a path that cannot be written.
class SLUICE_API Trace {
 public:
  Trace() = default;
  /// Takes what was recorded; sorts threads: pushers first, then workers by number, then streams.
  Trace(
      std::vector<TraceEvent> events,
      std::vector<TraceThread> threads,
      std::int64_t duration,
      std::vector<TraceBatch> batches = {});

  const std::vector<TraceEvent>& events() const noexcept { return events_; }
  const std::vector<TraceThread>& threads() const noexcept { return threads_; }
  const std::vector<TraceBatch>& batches() const noexcept { return batches_; }
  /// Nanoseconds from start_trace() to stop_trace().
  std::int64_t duration() const noexcept { return duration_; }

  /// The dependencies, derived from the Vars in order of push: the last writer before a reader, the readers since then
  /// before the next writer, a writer before the next one if nobody read in between. A run of tasks that commute counts
  /// as one writer, with no dependency inside. Once a pair, sorted.
  std::vector<TraceEdge> edges() const;

  /// Chrome's trace event format, for ui.perfetto.dev and chrome://tracing: a row a thread and a row a GPU stream,
  /// tasks with their Vars, push site and outcome, arrows for dependencies. A batch is one box that lists its tasks.
  /// Where a task says what it moves and computes, its arguments hold "bytes" and "work", and the rates "GB/s" and
  /// "GOP/s" (10^9 a second) if it ran alone.
  void write_chrome(const std::filesystem::path& path) const;
  void write_chrome(std::ostream& out) const;
  /// The graph of tasks for Graphviz: `dot -Tsvg trace.dot`. Edges carry the Vars.
  void write_dot(const std::filesystem::path& path) const;
  void write_dot(std::ostream& out) const;
  /// A timeline that stands by itself: a row a thread, a box a task, named and coloured by its name.
  void write_svg(const std::filesystem::path& path, const TraceSvgOptions& options = {}) const;
  void write_svg(std::ostream& out, const TraceSvgOptions& options = {}) const;

 private:
  std::vector<TraceEvent> events_;
  std::vector<TraceThread> threads_;
  std::vector<TraceBatch> batches_;
  std::int64_t duration_ = 0;
};

}  // namespace sluice
