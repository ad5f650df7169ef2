#pragma once

#include <cstddef>
#include <vector>

#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>

namespace sluice::graph {

inline std::size_t bytes_of(const ArraySpec& spec) {
  return static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
}

/// Who uses the memory of a graph's results.
class MemoryUse {
 public:
  /// `graph` must outlive this.
  explicit MemoryUse(const Graph& graph);

  /// Nodes, in order, that make, read or write the memory of a root; views do not.
  const std::vector<std::size_t>& users(ValueId root) const noexcept { return users_[root]; }
  /// Does the caller get it?
  bool stays(ValueId root) const noexcept { return stays_[root]; }
  /// May the node that makes `value` do so where `held` lies, which it uses last? A kernel that writes_over() may, if
  /// it reads that memory once, which lies as the result does, and leaves nothing else there.
  bool may_write_over(std::size_t node, ValueId value, ValueId held) const;
  const Graph& graph() const noexcept { return graph_; }

 private:
  const Graph& graph_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<bool> stays_;
};

/// Slots for the memory of `values`, roots of results, the largest first: with nodes in their order none grows for one
/// that comes later.
void place_by_size(const MemoryUse& use, std::vector<ValueId> values, MemoryPlan& plan);

}  // namespace sluice::graph
