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
/// pushed <= ready (every access granted) <= started <= ended. On a GPU the task starts and ends when the host issues
/// its work.
struct TraceEvent {
  std::string name;
  SourceLocation site;
  Device device;
  Priority priority = Priority::normal;
  TaskOutcome outcome = TaskOutcome::unfinished;
  int pusher = -1;  // Trace::threads()
  int worker = -1;  // the thread that ran, issued or skipped it
  std::int64_t pushed = -1;
  std::int64_t ready = -1;
  std::int64_t started = -1;
  std::int64_t ended = -1;
  std::vector<TraceVar> vars;
};

/// A thread that pushed or ran traced tasks.
struct TraceThread {
  std::string name;
  bool worker = false;  // of the traced engine's pool, or attached to it
};

/// A task that had to wait for another one: indices of Trace::events(), and the Vars because of which.
struct TraceEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::vector<std::uint64_t> vars;
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
  /// Takes what was recorded; sorts threads: pushers first, then workers by number.
  Trace(std::vector<TraceEvent> events, std::vector<TraceThread> threads, std::int64_t duration);

  const std::vector<TraceEvent>& events() const noexcept { return events_; }
  const std::vector<TraceThread>& threads() const noexcept { return threads_; }
  /// Nanoseconds from start_trace() to stop_trace().
  std::int64_t duration() const noexcept { return duration_; }

  /// The dependencies, derived from the Vars in order of push: the last writer before a reader, the readers since then
  /// before the next writer, a writer before the next one if nobody read in between. Once a pair, sorted.
  std::vector<TraceEdge> edges() const;

  /// Chrome's trace event format, for ui.perfetto.dev and chrome://tracing: a row a thread, tasks with their Vars, push
  /// site and outcome, arrows for dependencies.
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
  std::int64_t duration_ = 0;
};

}  // namespace sluice
