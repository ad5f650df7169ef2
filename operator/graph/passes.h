#pragma once

#include <cstddef>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/plan.h>

// Each pass takes a graph and gives one that computes the same, to the last bit unless it is allowed to round less.
// Numbers of values stay; those that no node uses any more are left over.
namespace sluice::graph {

/// Without the calls that leave what they are given as it is, to the last bit: x * 1, x / 1, x - 0, x + -0; negative
/// and logical_not twice; relu, abs, floor and their like of their own results; transposes and casts there and back;
/// shapes of shapes; copies of results that nobody writes; where() between one array. Of floating x * 1 and casts only
/// where x comes of arithmetic: of other numbers the call makes denormals 0 and signalling NaNs quiet.
SLUICE_API Graph without_identities(const Graph& graph);
/// Without the nodes where only gradients end.
SLUICE_API Graph without_detached(const Graph& graph);
/// Without the nodes of which nothing comes: neither an output of the graph nor a write to memory that others see.
SLUICE_API Graph without_dead_code(const Graph& graph);
/// Without the nodes that its outputs do not need: no longer the same to who looks at other memory that it wrote. What
/// is left reads no memory that a node which is gone would write.
SLUICE_API Graph for_outputs_alone(const Graph& graph);
/// Of nodes that compute the same from the same values the first alone. Not of random ones, nor where the memory of an
/// operand or result is written later or in between, nor where two outputs would become one array.
SLUICE_API Graph without_repetitions(const Graph& graph);
/// What is made only to be copied into memory that is there (gradients into a parameter's) is made there.
SLUICE_API Graph with_direct_writes(const Graph& graph);
/// Calls that one kernel does where only the second one wants what the first gives: a product whose gradient goes
/// through a relu, a loss and its gradient.
SLUICE_API Graph with_combined_calls(const Graph& graph);
/// On a GPU, the gradient of a dense layer's bias beside that of its weight, where they are two kernels anyway: other
/// nodes need not wait for one behind the other.
SLUICE_API Graph with_biases_apart(const Graph& graph);
/// On a GPU, the gradient of an activation (gelu, gelu_tanh, silu) takes along the gradient of the bias in front of it,
/// the sum of what it writes. To the last bit.
SLUICE_API Graph with_bias_sums(const Graph& graph);
/// A convolution takes along what alone reads it: relu behind a bias; rounded once also a batch norm of constant
/// statistics, a sum with an array of the same shape and the bias, all before the relu. Batch norm is then x * scale +
/// shift, which cancels where a mean is far from zero beside its deviation (Rounding::once).
SLUICE_API Graph with_epilogues(const Graph& graph, Rounding rounding);
/// On a CPU, of float32: a convolution with relu and the pooling that alone reads it, in windows that lie inside and
/// apart, are one call; so are the gradients of all three, where they are there. What lies between them, which is as
/// large as the image many times over, is not written down. To the last bit.
SLUICE_API Graph with_pooled_convolutions(const Graph& graph);
/// On a GPU, batch norm of the batch's statistics takes along a relu that alone reads it, and before that a sum with an
/// array that is there already; its gradient computes again what the relu let through, where nothing that this comes of
/// has changed. To the last bit.
SLUICE_API Graph with_norm_relus(const Graph& graph);
/// On a GPU, the gradient of a batch norm behind which something is added before a relu: the relu's mask and the sum of
/// two heads, which that alone reads, are one call with batch norm's gradient. The masked gradient is written, as
/// others read it. To the last bit.
SLUICE_API Graph with_norm_residuals(const Graph& graph);
/// On a GPU, layer norm (rms_norm too) of float32 whose result is read by a cast to a half type alone writes that type;
/// its gradient reads the half type of a head that a cast widens for it alone. To the last bit.
SLUICE_API Graph with_norm_casts(const Graph& graph);
/// On a GPU, layer norm (rms_norm too) takes along the sum that it reads, which is written where others read it too,
/// and a cast of what is added from a half type; its gradient another one that its own is added to, where that is there
/// already, and a cast of the sum to a half type: float32, in rows that its kernels keep in registers. To the last bit.
SLUICE_API Graph with_norm_sums(const Graph& graph);
/// Elementwise nodes of one shape that pass values on, or read the same, run as one node, `fused`, where there is a
/// kernel for that: what lies between them is neither written nor read.
SLUICE_API Graph with_fused_pointwise(const Graph& graph);
/// A reduction that reads what elementwise calls give takes it in as they compute it, `fused_reduction`, where there is
/// a kernel for that: it is written down only where others read it too.
SLUICE_API Graph with_fused_reductions(const Graph& graph, TakenReductions taken = TakenReductions::profitable);
/// On a GPU, weights of convolutions that want them channels-last and get them row by row from constants: brought into
/// that order by a node of its own, which a plan runs seldom (derived_nodes()).
SLUICE_API Graph with_ordered_weights(const Graph& graph);
/// What with_recomputation() may do.
struct RecomputationOptions {
  std::size_t budget = 0;    // bytes for results (planned_bytes() in order); 0: however many, nothing is changed
  std::size_t program = 0;   // so many nodes come first and stay as they are, if others are gradients of theirs
  bool keep_derived = true;  // as PlanOptions say: what comes of constants alone counts as kept
};
/// Values that are read again long after they were made are made again there, from what is still there or was made
/// again, by copies of their nodes in front of their late readers, until memory that is shared in order fits the
/// budget, or as far as it goes: never more than before. What little computing gives back most goes first; products and
/// convolutions are computed again only where the rest does not do. Never again: random numbers, what writes memory
/// that is there (of batch norm the running statistics: a copy writes others), what reads memory written in between,
/// loops and branches, what a plan runs once or keeps. Runs are the same to the last bit.
SLUICE_API Graph with_recomputation(const Graph& graph, const RecomputationOptions& options);
/// In this order: identities, repetitions, dead code, direct writes, combined calls, epilogues, pooled convolutions,
/// norm relus, norm residuals, norm casts, norm sums, biases apart, bias sums, pointwise fusion, reductions. Fusion
/// comes last, so that it takes no node from those that have a kernel for it. The graph is verified after each.
SLUICE_API Graph optimised(
    const Graph& graph, Rounding rounding = Rounding::as_by_hand, TakenReductions taken = TakenReductions::profitable);

/// Does some node write an input in place?
SLUICE_API bool writes_inputs(const Graph& graph);
/// The first one that does; null if there is none.
SLUICE_API const Node* writer_of_inputs(const Graph& graph);
/// Constants that nodes read and none writes.
SLUICE_API std::vector<NDArray> steady_constants(const Graph& graph);
/// Which nodes give the same whenever the graph runs, since they read nothing that can change: a plan keeps what the
/// others need of it.
SLUICE_API std::vector<bool> invariant_nodes(const Graph& graph);
/// Which nodes, views aside, compute from constants alone that the graph does not write, and give nothing that the
/// caller sees; those too that read no constant either. A plan runs them again only once a constant of theirs was
/// written (PlanOptions::keep_derived).
SLUICE_API std::vector<bool> derived_nodes(const Graph& graph);

}  // namespace sluice::graph
