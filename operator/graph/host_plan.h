#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/operator.h>

namespace sluice::graph {

/// Values of the host, row-major, that a run takes.
struct HostValues {
  const void* values = nullptr;
  DType dtype = float32;
  std::int64_t count = 0;
};
/// Where a run puts values.
struct HostRoom {
  void* values = nullptr;
  DType dtype = float32;
  std::int64_t count = 0;
};

struct HostPlanOptions {
  std::size_t most_at_once = 16;  // runs of a GPU's graph: each has memory and library handles of its own
  bool optimise = true;           // run the passes
  Rounding rounding = Rounding::as_by_hand;
  bool keep_derived = true;  // as PlanOptions say; all runs share what is kept, those by tasks have theirs
};

/// How runs went so far.
struct HostPlanCounts {
  std::uint64_t launched = 0;  // by one launch from the calling thread, and by the run that this was captured from
  std::uint64_t pushed = 0;    // by tasks
};

/// A graph from values of the host to values of the host, for many threads: each run waits for its results. On a GPU a
/// run is as a rule one launch of a CUDA graph by the calling thread, which also brings the values in and out; the
/// thread spins until they are there. It does without tasks, events and copies of their own, and shares no lock with
/// other runs, but to the rest of the engine it is a task that reads the graph's constants: what was pushed before that
/// writes them is seen, what is pushed later waits. Runs by tasks, as Plan::run(): on a CPU, in bodies, in a task
/// group, while a trace records; where a step cannot be captured, or the graph draws random numbers or writes its
/// constants; and when something has failed, so that the error is that of an operator.
class SLUICE_API HostPlan {
 public:
  /// Throws what verify() throws, ValueError for constants of another engine, OutOfMemory. Runs need the engine; the
  /// plan may go after it. Inputs are on one device.
  explicit HostPlan(const Graph& graph, const HostPlanOptions& options = {}, Engine& engine = Engine::current());
  HostPlan(const HostPlan&) = delete;
  HostPlan& operator=(const HostPlan&) = delete;
  /// No run is under way.
  ~HostPlan();

  /// One for each input and output of the graph, in their types. The host waits. Throws ValueError, ShapeError and
  /// DTypeError for others, EngineStopped, and what operators throw: then the rooms hold nothing of use.
  void run(
      std::span<const HostValues> inputs,
      std::span<const HostRoom> outputs,
      SourceLocation site = SourceLocation::current());

  const std::vector<ArraySpec>& inputs() const noexcept;
  const std::vector<ArraySpec>& outputs() const noexcept;
  /// After the passes.
  const Graph& graph() const noexcept;
  HostPlanCounts counts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::graph
