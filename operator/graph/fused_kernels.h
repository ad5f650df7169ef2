#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// A kernel that `fused` nodes of a graph run, on a GPU also `fused_reduction` ones.
struct FusedKernel {
  std::string calls = {};               // "multiply, add, relu"
  std::vector<std::size_t> nodes = {};  // which run it: places in Graph::nodes
  std::string source = {};              // CUDA C++, as NVRTC is given it; on a CPU loops of vectors do the same
  std::string problem = {};             // on a GPU: why the calls run one by one; empty if they do not
};

/// Those of `graph`, which a pass has fused, not of bodies of loops, in the order of their first nodes: programs that
/// differ in numbers or shapes alone share one. On a GPU the kernels are compiled, as plans do it. Throws
/// UnsupportedError for a program with an operator that has no formula.
SLUICE_API std::vector<FusedKernel> fused_kernels(const Graph& graph);

}  // namespace sluice::graph
