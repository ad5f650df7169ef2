#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Of scaled_dot_product_attention().
struct AttentionOptions {
  NDArray mask = {};                 // floating: added to the scores; any other type: 0 where a key does not count
  bool causal = false;               // query i sees keys 0 to i alone
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(width) if not given
  double dropout = 0;                // of the weights, while autograd::is_training()
};

/// softmax(scale q k^T + mask) v over (batch, heads, length, width) (PyTorch scaled_dot_product_attention): q (B, H, L,
/// E), k (B, G, S, E), v (B, G, S, F) give (B, H, L, F). H is a multiple of G: heads of q share those of k and v in
/// groups of H / G that follow each other (grouped and multi-query attention, PyTorch's enable_gqa). The mask
/// broadcasts to (B, H, L, S) and has a gradient if it is floating; an entry of -inf counts as masked. A query that no
/// key counts for gives 0, and 0 as gradients. Operands of one floating type, half types added up in float32. On a
/// Hopper GPU one kernel of cuDNN's (9.19 or later) each way, which writes no scores down: of half types, E and F
/// multiples of 8 up to 256, no weights dropped, no gradient of the mask asked for; the same bits each time. Backward
/// takes 2 bytes a score of scratch meanwhile, at most 2 GiB unless one head needs more. Throws ShapeError, DTypeError,
/// ValueError for a dropout outside [0, 1] and a scale that is not finite. The result may have any strides.
SLUICE_API NDArray scaled_dot_product_attention(
    const NDArray& q,
    const NDArray& k,
    const NDArray& v,
    const AttentionOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// The same of queries, keys and values side by side, as one product gives them: qkv (B, L, (heads + 2 kv_heads) E),
/// heads of q, then of k, then of v (flash-attn's flash_attn_qkvpacked_func); kv_heads 0: as many as q has. Gives (B,
/// L, heads E), joined. The gradient comes as one array, which a GPU's kernel writes and others are put together for.
/// Throws as the above, ShapeError also where the last axis does not divide into so many heads.
SLUICE_API NDArray packed_attention(
    const NDArray& qkv,
    std::int64_t heads,
    std::int64_t kv_heads = 0,
    const AttentionOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// (batch, length, heads * width) as (batch, heads, length, width). Throws ShapeError, also where the last axis does
/// not divide into so many heads.
SLUICE_API NDArray split_heads(const NDArray& x, std::int64_t heads, SourceLocation site = SourceLocation::current());
/// (batch, heads, length, width) as (batch, length, heads * width). Throws ShapeError.
SLUICE_API NDArray join_heads(const NDArray& x, SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_attention, k_split_heads, k_join_heads;
}  // namespace detail

}  // namespace sluice
