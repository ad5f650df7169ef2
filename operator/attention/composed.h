#pragma once

#include <span>

#include <sluice/operator/operator.h>

// Attention put together of products and a softmax, whose gradients it has.
namespace sluice::detail {

/// Throws ValueError, DTypeError or ShapeError naming `op` where the first three inputs are not q, k and v that fit.
void check_attention_operands(const Operator& op, std::span<const ArraySpec> inputs);

/// One call, checked. The mask may be undefined.
struct ComposedAttention {
  NDArray q, k, v, mask;
  bool causal = false;
  double scale = 1;
  double dropout = 0;
};

/// q, k and v of an array (B, L, H + 2 G, E) of their heads, G of them keys' and as many values': views.
Arrays packed_apart(const NDArray& packed, std::int64_t kv_heads, SourceLocation site);

/// What scaled_dot_product_attention() says: computed in float32 or float64, rounded to v's type once.
NDArray attention_composed(const ComposedAttention& call, SourceLocation site);

/// The same without dropout, and the logarithms of the sums of each query's
/// exponentials (B, H, L), -inf where no key counts.
Arrays attention_with_statistics(const ComposedAttention& call, SourceLocation site);

/// The gradients of q, k, v and, where `wants_mask`, the mask for those of the two results of the above; either may be
/// undefined. Computed as these are, of operators that have gradients themselves.
Arrays attention_gradients(
    const ComposedAttention& call,
    const NDArray& head,
    const NDArray& statistics_head,
    bool wants_mask,
    SourceLocation site);

}  // namespace sluice::detail
