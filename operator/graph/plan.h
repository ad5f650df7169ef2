#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/region.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/operator.h>

namespace sluice::graph {

/// How often a number may be rounded on its way through several calls that become one.
enum class Rounding : std::uint8_t {
  as_by_hand,  // wherever the calls one by one round: results are theirs to the last bit
  /// Behind the last of them alone, in fewer kernels. In half types that is as a rule closer to what is meant. A batch
  /// norm becomes x * scale + shift, which cancels where a channel's mean is large beside its deviation: in float32 the
  /// error grows with mean / deviation (3.8e-6 instead of 3e-8 for 1 / 0.01). Where no kernel does it all (on a CPU, or
  /// if cuDNN has none), the convolution's sums are of x's type before scale and shift: in float16 beyond 65504 inf.
  once,
};

/// Which reductions become one with the elementwise calls that give their terms, of those that may. Bits are the same.
enum class TakenReductions : std::uint8_t {
  none,        // for comparison
  profitable,  // where it saves time (detail/reduction_rules.h)
  all,         // for tests
};

/// How a plan is made.
struct PlanOptions {
  bool optimise = true;          // run the passes
  bool share_memory = true;      // plan_memory(); otherwise each result has its own
  std::size_t most_arenas = 16;  // threads that run a graph which writes nothing outside have memory each
  bool keep_results = false;     // memory of small results serves again once the caller has let go of it
  Rounding rounding = Rounding::as_by_hand;
  TakenReductions reductions = TakenReductions::profitable;
  /// What the rest reads of what comes of constants alone (scales of batch norm, weights in another type or order) is
  /// kept, in memory of its own that all arenas share, and made again only once a constant that it comes of was
  /// written. Each plan keeps its own. Where memory does not suffice for it, the plan does without, from then on. What
  /// comes of no constant either is always kept.
  bool keep_derived = true;
  /// Memory serves again as soon as the nodes in their order are done with it: less of it, and fewer of them side by
  /// side (Sharing::in_order).
  bool share_in_order = false;
  /// For tests: before each run all memory for results is filled with bytes of 0xff, NaNs and -1. A kernel that reads
  /// what nobody wrote gives other results then.
  bool poison = false;
  /// Bytes that the results may take in an arena (PlanMemory::bytes); 0: however many. Where they take more, memory is
  /// shared in order; where that is not enough, values that are read long after they were made are computed again
  /// instead of being kept: cheap ones first, as few as will do, or as far as it goes. Results stay the same to the
  /// last bit (with_recomputation()). Not with share_memory = false.
  std::size_t memory_budget = 0;
};

/// What each arena of a plan holds.
struct PlanMemory {
  std::size_t bytes = 0;                  // of results, as they share it
  std::size_t bytes_without_sharing = 0;  // as they would have it each for itself
  std::size_t bytes_derived = 0;          // of what is kept from run to run, when the plan was made
  std::size_t bytes_without_budget = 0;   // as `bytes` would be with PlanOptions::memory_budget = 0
};

/// Calls of a plan that run together, one segment after the other.
struct PlanSegment {
  std::size_t calls = 0;
  bool captured = false;  // as one CUDA graph; otherwise each call is a task of its own
  /// Of one that is not: its first call, where the user made it, and why no CUDA graph holds it.
  std::string op = {};
  SourceLocation site = {};
  std::string reason = {};
};

/// "segment 1: 12 calls as one CUDA graph", a line a segment; of others also which call it is, its line, and why.
SLUICE_API std::string to_string(std::span<const PlanSegment> segments);

/// Runs the graph on new inputs: each node by invoke(), results new arrays. What a plan is compared with.
SLUICE_API Arrays evaluate(const Graph& graph, std::span<const NDArray> inputs);

/// The same as part of a program that goes on: recorded where that is, with the numbers that an earlier run drew, and
/// without writing the constants. `random`: of the random values that nodes read, in their order, each of shape (2,).
/// Throws UnsupportedError where what a node gives depends on a constant that the graph writes.
SLUICE_API Arrays evaluate_again(const Graph& graph, std::span<const NDArray> inputs, std::span<const NDArray> random);

/// A graph made ready to run again and again: memory planned, results where they were the last time; on a GPU what can
/// be captured is one CUDA graph, for arrays at addresses that come again without a copy. Constants are used as they
/// are at each run, and written where the graph writes them; random numbers are drawn anew, in the order of the nodes,
/// as invoke() would draw them.
class SLUICE_API Plan {
 public:
  /// Throws what verify() throws, OutOfMemory. Runs need the engine; the plan may go after it.
  explicit Plan(const Graph& graph, const PlanOptions& options = {}, Engine& engine = Engine::current());
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  /// Work under way ends by itself; the host does not wait.
  ~Plan();

  /// One array an output, new unless it is a constant or an input that the graph does not write; views of one result
  /// share its memory. Inputs are as they are when run() is called, and are not written: what the graph writes into one
  /// shows in its outputs alone. Pushes the work and does not wait. Throws ValueError, ShapeError, DTypeError and
  /// DeviceError for other inputs than the graph's, OutOfMemory, and what invoke() throws. Nothing of it is recorded.
  /// Any thread may call it, also several at once: threads whose numbers meet share an arena and take turns, and so do
  /// all runs of a graph that writes constants; in a body a run that would wait for an arena gets memory of its own.
  Arrays run(std::span<const NDArray> inputs, SourceLocation site = SourceLocation::current());

  /// After the passes.
  const Graph& graph() const noexcept;
  PlanMemory memory() const noexcept;
  /// Which results share memory; each arena has as much.
  const MemoryPlan& memory_plan() const noexcept;
  /// How a run is cut: what each memory of the plan does, in this order. What is kept of constants is not among it. A
  /// segment that turned out to be none, since a body did what a capture does not take, says so after its first run.
  /// Waits for runs that are being pushed; not for bodies.
  std::vector<PlanSegment> segments() const;
  /// What the CUDA graphs of all its memory did so far; 0 on a CPU. `captured` grows with new memory and new addresses,
  /// never because a number changed: learning rates, step counts and scales of losses. Waits as segments() does.
  RegionCounts counts() const;

 private:
  friend struct PlanAccess;
  struct Ready;
  struct State;
  static Ready made_ready(const Graph& graph, const PlanOptions& options);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::graph
