#pragma once

#include <cstddef>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// A program and its gradients, each a graph of its own.
struct SplitGraph {
  Graph forward = {};   // of the same inputs; outputs are those of the program, and behind them `saved`
  Graph backward = {};  // inputs are `saved`, and behind them the heads' gradients
  std::vector<ValueId> saved = {};
};

/// Where a traced program and its gradients are cut.
struct SplitPlace {
  std::size_t nodes = 0;    // so many belong to the program
  std::size_t inputs = 0;   // so many are its inputs; those behind are gradients of its outputs
  std::size_t outputs = 0;  // so many are its outputs; those behind are the gradients
};

/// Cuts a graph that computes a program's outputs and then its gradients. What the gradients read of the program,
/// inputs and numbers that it drew too, is saved, each value once; parameters are constants of both. Throws
/// UnsupportedError where the gradients write what the program made, AutogradError where the program writes in place
/// what they need as it was.
SLUICE_API SplitGraph split(const Graph& joint, const SplitPlace& place);

}  // namespace sluice::graph
