#pragma once

#include <cstdint>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// How many operations on numbers a node does, by the formula and not by what some kernel does instead; those that go
/// with results, not with the elements that they are made of, are left out. Additions, multiplications, comparisons,
/// functions like exp, one each, whatever the type.
///
///     matmul, dense, convolution        2 for each product that is summed, 1 an element for a bias, 1 for relu
///     their gradients                   the same, 1 for a relu's mask that is taken along
///     elementwise, one of gradients too 1 an element of the result, however long the formula
///     fused                             1 for each of its calls but casts, times the elements of a result
///     reductions                        1 an element read; norms 2, logsumexp, variance, standard_deviation 4
///     pooling                           1 an element of a window
///     softmax, log_softmax              5 an element, backward 4; cross-entropy of classes 4 and 3
///     batch_norm                        6 an element of x, in predict mode 2, with a relu 7, backward 9 and 10
///     dropout                           1 an element
///     sgd, adam                         5 a weight, with momentum 7; 15
///     take, pick                        0, backward 1 an element that is added
///     foreach, while_loop               their bodies, as often as there may be turns
///     cond                              the branch that does more
///
/// 0 for views, for what copies, casts, moves or draws numbers, and for operators that are not Sluice's.
SLUICE_API std::int64_t flops(const Node& node, const Graph& graph);
/// Of all nodes.
SLUICE_API std::int64_t flops(const Graph& graph);

}  // namespace sluice::graph
