#pragma once

#include <span>
#include <string>

#include <sluice/operator/graph/plan.h>

// Why what was to be one graph is none, in words for the user: the call, its layer and line.
namespace sluice::gluon::detail {

/// Of a program that writes an array that it is given: which call does; empty of any other one.
std::string why_writing(const graph::Graph& graph);

/// Of a program that reads one of these arrays, to which gradients go without its plan: which call does.
std::string why_reading(const graph::Graph& graph, std::span<const NDArray> recorded);

/// Of a plan on a GPU that is not one CUDA graph: how many pieces it has, and each call that is why; otherwise empty.
/// Waits as Plan::segments() does.
std::string why_cut(const graph::Plan& plan);

}  // namespace sluice::gluon::detail
