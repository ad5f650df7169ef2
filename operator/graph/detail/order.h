#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Which nodes must have run before which, from what they read and write: as the engine orders their tasks.
class NodeOrder {
 public:
  explicit NodeOrder(const Graph& graph);
  /// Is node `first` always done when node `second` runs?
  bool is_before(std::size_t first, std::size_t second) const noexcept {
    return (bits_[second * words_ + first / 64] >> (first % 64) & 1) != 0;
  }

 private:
  void add(std::size_t before, std::size_t node) noexcept;

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace sluice::graph
