#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Whose results a plan keeps from run to run.
enum class Derives : std::uint8_t {
  of_nothing,    // nodes that read nothing which is there before the graph runs
  of_constants,  // those too that read constants which the graph does not write
};

/// Nodes that go together, as some of them read what others make.
struct DerivedGroup {
  std::vector<std::size_t> nodes = {};  // of `derived`, in order, with the views that they look through
  std::vector<ValueId> sources = {};    // constants that they read
  std::vector<ValueId> kept = {};       // what they make for the rest
};

/// A graph in two: what comes of constants alone, or of nothing, and the rest, in which what it reads of that is
/// constants. Numbers of values are the graph's in both; what a part does not use is but a shape there.
struct DerivedSplit {
  Graph derived = {};  // without inputs; outputs are all that is kept, in `rest` constants that have no array yet
  Graph rest = {};
  std::vector<DerivedGroup> groups = {};
};

/// Values that no node or caller changes between two writes of constants: those and what comes of them alone.
std::vector<bool> derived_values(const Graph& graph);

/// Nothing where no node reads what comes of constants alone, or of nothing.
std::optional<DerivedSplit> split_derived(const Graph& graph, Derives what);

}  // namespace sluice::graph
