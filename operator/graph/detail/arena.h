#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/region.h>
#include <sluice/ndarray/detail/buffers_kept.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/kept_results.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/plan.h>

namespace sluice::graph {

void add_to(RegionCounts& sum, const RegionCounts& more) noexcept;

/// Memory for runs of a graph, which follow each other there, and what was recorded in it. One thread at a time.
class Arena {
 public:
  /// Throws OutOfMemory. `graph` and `engine` must outlive the arena's runs.
  Arena(const Graph& graph, const PlanOptions& options, Engine& engine);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  bool is_current() const { return binding_.is_current(); }
  bool writes_outside() const noexcept { return binding_.writes_outside(); }
  const MemoryPlan& memory() const noexcept { return binding_.memory(); }
  /// Of values that do not come from outside.
  const NDArray& array(ValueId value) const noexcept { return binding_.array(value); }
  std::vector<PlanSegment> segments() const;
  RegionCounts counts() const noexcept;
  /// Of what ran last: see PlanAccess.
  double seconds_alone(int launches) const;
  /// Plan::run() with inputs that were checked.
  Arrays run(std::span<const NDArray> inputs, SourceLocation site);

 private:
  /// Steps that run together: as one CUDA graph, or, without a region, one by one.
  struct Segment {
    std::size_t begin = 0, end = 0;
    std::unique_ptr<Region> region = {};
  };
  /// CUDA graphs of the segments, for arrays from outside at these addresses.
  struct Recording {
    std::vector<const void*> addresses;
    std::uint64_t key = 0;
    std::vector<std::unique_ptr<sluice::detail::BuffersKept>> kept;  // by segment: what recorded calls made
  };

  void find_segments();
  /// Of values from outside, from that one on.
  std::size_t bytes_outside(std::size_t begin) const;
  bool are_results_small() const;
  bool is_large() const;
  void bring(std::span<const NDArray> inputs, Arrays& arrays, SourceLocation site);
  void add_results(Arrays& arrays);
  Recording* recording_for(const Arrays& arrays);
  Recording* find_recording(const Arrays& arrays);
  bool is_worth_recording(const std::vector<const void*>& addresses);
  Recording& new_recording();
  bool is_kept(const Arrays& arrays) const;
  void make_own();
  Arrays in_own_inputs(const Arrays& arrays, SourceLocation site);
  void copy_rewritten_inputs(std::span<const NDArray> inputs, SourceLocation site) const;
  void run_in_own(const Arrays& arrays, SourceLocation site);
  void run_with(const Arrays& arrays, Recording* recording, SourceLocation site);
  void run_segment(std::size_t at, Recording* recording, SourceLocation site);
  Arrays results(std::span<const NDArray> inputs, const Arrays& arrays, SourceLocation site);

  const Graph& graph_;
  Engine& engine_;
  Binding binding_;
  const bool poisons_;
  std::size_t results_begin_ = 0;           // of binding_.outside(): behind the inputs
  std::vector<std::size_t> input_numbers_;  // of the inputs there
  std::vector<bool> rewritten_ = rewritten_roots(graph_);
  bool records_ = false;
  std::deque<Recording> recordings_;  // the one used last comes first
  std::uint64_t keys_ = 0;
  std::deque<std::vector<const void*>> seen_;  // and not recorded
  double credit_ = 0;
  std::vector<std::unique_ptr<KeptResults>> kept_results_;
  bool keeps_results_ = false, is_large_ = false;
  std::vector<const void*> addresses_;  // of the run's arrays
  std::vector<Var> changing_;           // their Vars, while they are used
  Arrays brought_;                      // from outside, during a run
  Arrays own_;                          // in place of arrays at other addresses each time
  std::unique_ptr<Recording> own_recording_;
  std::vector<Segment> segments_;  // regions go before the memory that is theirs
};

}  // namespace sluice::graph
