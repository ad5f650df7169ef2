#pragma once

#include <optional>
#include <span>

#include <sluice/operator/attention/attention.h>

// What scaled_dot_product_attention() and packed_attention() have in common.
namespace sluice::detail {

struct AttentionAttributes {
  bool causal = false;
  std::optional<double> scale = {};
  double dropout = 0;

  template <class V>
  void visit(V&& v) {
    v.field("causal", causal);
    v.field("scale", scale);
    v.field("dropout", dropout);
  }

  /// Of scores, for queries of that width.
  double scale_of(std::int64_t width) const;
};

/// What a call's options say, in the mode that the thread is in. Throws ValueError for a dropout outside [0, 1].
AttentionAttributes attention_told(const Operator& op, const AttentionOptions& options);

/// Throws what scaled_dot_product_attention() says of its operands; gives its result's spec.
ArraySpec check_attention(const Operator& op, std::span<const ArraySpec> inputs, const AttentionAttributes& how);

/// Whether it is one kernel: of half types, on a GPU whose library has it, where nothing is drawn and the mask (maybe
/// undefined) has no gradient. `kv_heads`: as FusedAttentionAttributes have it; packed ones are asked for both passes.
bool attention_is_fused(
    const Specs& heads, Engine& engine, const NDArray& mask, const AttentionAttributes& how, std::int64_t kv_heads);

/// The mask as that kernel takes it.
NDArray attention_added_mask(const NDArray& mask, DType scores, SourceLocation site);

/// Checked q, k, v and maybe a mask; gives (B, H, L, F).
NDArray attend(std::span<const NDArray> inputs, const AttentionAttributes& how, SourceLocation site);

extern const Operator k_packed_attention;

}  // namespace sluice::detail
