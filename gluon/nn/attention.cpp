#include <sluice/engine/error.h>
#include <sluice/gluon/nn/attention.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/attention/attention.h>

namespace sluice::gluon::nn {

namespace {

std::int64_t checked_heads(std::int64_t units, std::int64_t heads, const MultiHeadAttentionOptions& o) {
  const std::int64_t shared = o.kv_heads == 0 ? heads : o.kv_heads;
  require(heads >= 1 && units >= 1 && units % heads == 0 && shared >= 1 && heads % shared == 0, [&] {
    return message(
        "nn::MultiHeadAttention: ", units, " units, ", heads, " heads and ", o.kv_heads, " kv_heads do not divide");
  });
  require(o.dropout >= 0 && o.dropout <= 1, [&] {
    return message("nn::MultiHeadAttention: dropout is ", o.dropout, ", not between 0 and 1");
  });
  return shared;
}

Dense projection(std::int64_t units, const MultiHeadAttentionOptions& o) {
  return Dense(
      units, {.use_bias = o.use_bias, .flatten = false, .dtype = o.dtype, .weight_initializer = o.weight_initializer});
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t units, std::int64_t num_heads, MultiHeadAttentionOptions options)
    : num_heads_(num_heads),
      kv_heads_(checked_heads(units, num_heads, options)),
      dropout_(options.dropout),
      causal_(options.causal),
      query_(child("query", projection(units, options))),
      key_(child("key", projection(units / num_heads * kv_heads_, options))),
      value_(child("value", projection(units / num_heads * kv_heads_, options))),
      out_(child("out", projection(units, options))) {}

Arrays MultiHeadAttention::forward_all(std::span<const NDArray> inputs) const {
  require(inputs.size() == 1 || inputs.size() == 3 || inputs.size() == 4, [&] {
    return message(
        "MultiHeadAttention: takes x, or query, key, value and maybe a mask, not ", inputs.size(), " arrays");
  });
  const bool is_self = inputs.size() == 1;
  for (const NDArray& x : inputs.first(is_self ? 1 : 3)) {
    require<ShapeError>(x.defined() && sluice::detail::unseen_shape(x).ndim() == 3, [&] {
      return message("MultiHeadAttention: takes (N, length, channels), not ", x.shape());
    });
  }
  const SourceLocation site = call_site();
  const NDArray q = split_heads(query_(inputs[0]), num_heads_, site);
  const NDArray k = split_heads(key_(inputs[is_self ? 0 : 1]), kv_heads_, site);
  const NDArray v = split_heads(value_(inputs[is_self ? 0 : 2]), kv_heads_, site);
  AttentionOptions how{.causal = causal_, .dropout = dropout_};
  if (inputs.size() > 3)
    how.mask = inputs[3];
  return {out_(join_heads(scaled_dot_product_attention(q, k, v, how, site), site))};
}

}  // namespace sluice::gluon::nn
