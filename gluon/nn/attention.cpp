#include <cstddef>

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
      turns_(options.rotary.has_value()),
      query_(child("query", projection(units, options))),
      key_(child("key", projection(units / num_heads * kv_heads_, options))),
      value_(child("value", projection(units / num_heads * kv_heads_, options))),
      out_(child("out", projection(units, options))) {
  if (turns_)
    rotary_ = child("rotary", RotaryEmbedding(*options.rotary));
}

Arrays MultiHeadAttention::forward_all(std::span<const NDArray> inputs) const {
  const std::size_t given = inputs.size();
  require(given == 1 || given == 3 || given == 4 || (turns_ && (given == 2 || given == 5)), [&] {
    return message(
        "MultiHeadAttention: takes x, or query, key, value and maybe a mask, ",
        turns_ ? "and positions behind either, not " : "not ",
        given,
        " arrays");
  });
  const bool is_self = given <= 2;
  for (const NDArray& x : inputs.first(is_self ? 1 : 3)) {
    require<ShapeError>(x.defined() && sluice::detail::unseen_shape(x).ndim() == 3, [&] {
      return message("MultiHeadAttention: takes (N, length, channels), not ", x.shape());
    });
  }
  const SourceLocation site = call_site();
  NDArray q = split_heads(query_(inputs[0]), num_heads_, site);
  NDArray k = split_heads(key_(inputs[is_self ? 0 : 1]), kv_heads_, site);
  if (turns_) {
    const bool placed = given == 2 || given == 5;
    q = placed ? rotary_(q, inputs.back()) : rotary_(q);
    k = given == 2 ? rotary_(k, inputs.back()) : rotary_(k);
  }
  const NDArray v = split_heads(value_(inputs[is_self ? 0 : 2]), kv_heads_, site);
  AttentionOptions how{.causal = causal_, .dropout = dropout_};
  if (given > 3)
    how.mask = inputs[3];
  return {out_(join_heads(scaled_dot_product_attention(q, k, v, how, site), site))};
}

}  // namespace sluice::gluon::nn
