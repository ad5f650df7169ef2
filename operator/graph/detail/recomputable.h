#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <sluice/operator/graph/detail/lives.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

/// Whether a node may run again, and how much that is.
enum class Work : std::uint8_t { never, light, heavy };

/// What of a graph may be computed again, where, and what that costs. `graph` has its shapes apart and outlives this.
class Recomputable {
 public:
  static constexpr std::size_t k_forever = std::numeric_limits<std::size_t>::max();

  Recomputable(const Graph& graph, const RecomputationOptions& options);

  /// The memory of a value. Uses are nodes by number.
  struct Root {
    Work work = Work::never;
    std::size_t bytes = 0;
    std::size_t last_use = k_forever;    // if it is kept
    std::size_t early_end = k_forever;   // its last use if it is made again
    std::size_t late_begin = k_forever;  // the first use of what is made again; forever: it has none
  };
  const Root& root(ValueId id) const noexcept { return roots_[graph_.root(id)]; }

  /// Inputs of the node whose memory it reads, those aside that a copy of it does not share.
  std::vector<ValueId> operands(std::size_t node) const;
  /// The last node in front of which its operands are what they were.
  std::size_t unchanged_until(std::size_t node) const noexcept { return unchanged_until_[node]; }
  /// The node that makes the memory; of results alone.
  std::size_t maker(ValueId root) const { return *lives_.maker[root]; }
  /// In bytes moved, computing and launching counted as the bytes that could be moved meanwhile.
  double cost(std::size_t node) const;
  const Graph& graph() const noexcept { return graph_; }

 private:
  void add(std::size_t at, Work work, bool stays);
  Work work_of(std::size_t at) const;
  bool may_run_again(std::size_t at) const;
  std::size_t change_behind(std::size_t at) const;
  void find_gap(ValueId root);

  const Graph& graph_;
  const std::size_t program_;
  const Lives lives_;
  std::vector<Root> roots_;
  std::vector<std::size_t> unchanged_until_;  // by node
};

/// A graph in which values are made again, and what that costs.
struct Recomputed {
  Graph graph = {};
  double cost = 0;
};

/// `again`, by root: behind its early uses it is made again once somebody reads it, unless something changed what it
/// comes of.
Recomputed recomputed(const Recomputable& known, const std::vector<bool>& again);

}  // namespace sluice::graph
