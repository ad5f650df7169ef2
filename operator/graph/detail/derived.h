#pragma once

#include <optional>
#include <vector>

#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// A graph in two: what comes of constants alone, and the rest, in which that is constants. Numbers of values are the
/// graph's in both; what a part does not use is but a shape there.
struct DerivedSplit {
  Graph derived = {};  // without inputs and outputs
  Graph rest = {};
  std::vector<ValueId> sources = {};  // constants that `derived` reads
  std::vector<ValueId> kept = {};     // what it makes: constants of `rest` that have no array yet
};

/// Values that no node or caller changes between two writes of constants: those and what comes of them alone.
std::vector<bool> derived_values(const Graph& graph);

/// Nothing where no node of the graph computes from constants alone.
std::optional<DerivedSplit> split_derived(const Graph& graph);

}  // namespace sluice::graph
