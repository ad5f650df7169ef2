#pragma once

#include <cstdint>
#include <optional>

#include <sluice/operator/operator.h>

// Attention as one kernel of tiles, whose scores are nowhere in memory: cuDNN's, of half types on GPUs.
namespace sluice::detail {

struct FusedAttentionAttributes {
  bool causal = false;
  double scale = 1;
  std::int64_t kv_heads = 0;  // 0: q, k and v come apart; else packed, so many heads of k and of v behind those of q

  bool packed() const noexcept { return kv_heads > 0; }
  /// Inputs that hold q, k and v.
  std::size_t operands() const noexcept { return packed() ? 1 : 3; }

  template <class V>
  void visit(V&& v) {
    v.field("causal", causal);
    v.field("scale", scale);
    v.field("kv_heads", kv_heads);
  }
};

/// q (B, H, L, E), k (B, G, S, E), v (B, G, S, F) and maybe a mask of 4 axes that is added to the scores; gives y (B,
/// L, H, F), whose heads join without a copy, and, in float32, the logarithms of the sums of each query's exponentials
/// (B, H, L): what its gradient reads. Packed q, k and v are one array (B, L, H + 2 G, E), as a product of all three
/// gives them.
extern const Operator attention_fused_op;
/// q, k, v, y, statistics, the gradient of y and maybe the mask; gives the gradients of q (B, L, H, E), k (B, S, G, E)
/// and v (B, S, G, F), of packed ones one array like theirs. The same bits whenever it runs.
extern const Operator attention_fused_backward_op;

enum class AttentionPass : std::uint8_t { forward, backward };

/// The strides of (B, H, L, E) where the heads of a place are neighbours.
Shape joined_strides(const Shape& shape);

/// The strides of (B, H, L, E), of q, k or v, among `heads` heads that are neighbours at each place.
Shape packed_strides(const Shape& shape, std::int64_t heads);

/// One pass: extents (batch, heads, places, width) of all, strides in elements. Statistics lie row by row.
struct AttentionProblem {
  AttentionPass pass = AttentionPass::forward;
  DType dtype = DType::bfloat16;
  bool causal = false;
  Shape q = {}, k = {}, v = {};
  Shape q_strides = {}, k_strides = {}, v_strides = {}, y_strides = {}, head_strides = {};
  Shape dq_strides = {}, dk_strides = {}, dv_strides = {};
  std::optional<DType> mask_dtype = {};  // none: no mask
  Shape mask = {}, mask_strides = {};
  std::int64_t statistics_alignment = 16, mask_alignment = 16;  // bytes: parts of a problem begin where they begin

  /// A mask of that shape, without gaps; of the backward pass one of all queries and keys, which it is stretched to:
  /// cuDNN 9.19 takes others there and computes other gradients.
  void add_mask(const Shape& shape, DType type);
  Shape y() const { return {q[0], q[1], q[2], v[3]}; }
  Shape scores() const { return {q[0], q[1], q[2], k[2]}; }
};

/// Where its arrays are; those of the other pass are null.
struct AttentionData {
  void *q = nullptr, *k = nullptr, *v = nullptr, *y = nullptr, *statistics = nullptr, *mask = nullptr;
  void *head = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float scale = 1;
};

/// A pass over arrays without gaps, and y, its gradient and all that is given by joined_strides(); what is packed by
/// packed_strides().
AttentionProblem attention_problem(
    AttentionPass pass,
    const Shape& q,
    const Shape& k,
    const Shape& v,
    DType dtype,
    const FusedAttentionAttributes& how);

/// Whether the inputs are of types and widths that the operators above take, whatever the device.
bool fits_fused_attention(std::span<const ArraySpec> inputs);

/// Whether a library of that GPU's has a kernel for the pass. No task, no wait; the first time of a problem takes some
/// milliseconds.
bool attention_has_kernel(Engine& engine, Device device, const AttentionProblem& problem);
/// Enqueues the pass; no extent is 0. Throws UnsupportedError where there is no kernel.
void attention_by_plan(const Queue& queue, const AttentionProblem& problem, const AttentionData& data);

void attention_fused_gpu(const KernelCall& call);
void attention_fused_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
