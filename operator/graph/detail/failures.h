#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Which calls may fail for what their arrays hold (an index out of bounds, a loop whose body does, an operator of
/// others), and with which of them each call is lost.
class Failures {
 public:
  explicit Failures(const Graph& graph);

  /// Calls of one number are lost with the same ones. By node.
  std::size_t of(std::size_t at) const noexcept { return of_node_[at]; }
  /// Of what is lost as soon as one of two is.
  std::size_t joined(std::size_t a, std::size_t b);

 private:
  std::size_t number_of(const std::vector<std::size_t>& nodes);

  std::vector<std::vector<std::size_t>> nodes_;  // by number: those that may fail, in order
  std::map<std::vector<std::size_t>, std::size_t> numbers_;
  std::vector<std::size_t> of_node_;
};

}  // namespace sluice::graph
