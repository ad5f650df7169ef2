#pragma once

#include <span>

#include <sluice/operator/operator.h>

// Every family of operators lists its own; operator/registry.cpp joins the lists. A new family adds a line to each.
namespace sluice::detail {

using OperatorList = std::span<const Operator* const>;

OperatorList elementwise_operators() noexcept;
OperatorList fused_operators() noexcept;
OperatorList view_operators() noexcept;
OperatorList matmul_operators() noexcept;
OperatorList product_operators() noexcept;
OperatorList decomposition_operators() noexcept;
OperatorList conv_operators() noexcept;
OperatorList pool_operators() noexcept;
OperatorList norm_operators() noexcept;
OperatorList reduce_operators() noexcept;
OperatorList softmax_operators() noexcept;
OperatorList ctc_operators() noexcept;
OperatorList rnn_operators() noexcept;
OperatorList gather_operators() noexcept;
OperatorList indexed_operators() noexcept;
OperatorList sequence_operators() noexcept;
OperatorList concat_operators() noexcept;
OperatorList control_operators() noexcept;
OperatorList walk_operators() noexcept;
OperatorList scan_operators() noexcept;
OperatorList diff_operators() noexcept;
OperatorList place_operators() noexcept;
OperatorList order_operators() noexcept;
OperatorList search_operators() noexcept;
OperatorList count_operators() noexcept;
OperatorList random_operators() noexcept;
OperatorList update_operators() noexcept;
OperatorList attention_operators() noexcept;
OperatorList resize_operators() noexcept;
OperatorList vision_operators() noexcept;
OperatorList block_operators() noexcept;
OperatorList lookup_operators() noexcept;
OperatorList statistics_operators() noexcept;

}  // namespace sluice::detail
