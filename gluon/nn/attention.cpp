#include <cstddef>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/nn/attention.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/attention/attention.h>
#include <sluice/operator/elementwise/elementwise.h>

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

// Behind x, where with rotary options positions would be, which have fewer axes.
bool is_mask(const NDArray& x) {
  return x.defined() && sluice::detail::unseen_shape(x).ndim() == 4;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t units, std::int64_t num_heads, MultiHeadAttentionOptions options)
    : num_heads_(num_heads),
      kv_heads_(checked_heads(units, num_heads, options)),
      width_(units / num_heads),
      dropout_(options.dropout),
      causal_(options.causal),
      turns_(options.rotary.has_value()),
      query_(child("query", projection(units, options))),
      key_(child("key", projection(units / num_heads * kv_heads_, options))),
      value_(child("value", projection(units / num_heads * kv_heads_, options))),
      out_(child("out", projection(units, options))) {
  if (turns_)
    rotary_ = child("rotary", RotaryEmbedding(*options.rotary));
  const MultiHeadAttentionOptions usual;
  note_options(OptionNotes()
                   .add("units", units)
                   .add("num_heads", num_heads)
                   .add("kv_heads", kv_heads_, num_heads)
                   .add("dropout", options.dropout, usual.dropout)
                   .add("causal", options.causal, usual.causal)
                   .add("use_bias", options.use_bias, usual.use_bias)
                   .add("dtype", options.dtype, usual.dtype));
}

Arrays MultiHeadAttention::forward_all(std::span<const NDArray> inputs) const {
  const std::size_t given = inputs.size();
  const bool is_masked = given == 2 && !turns_ && is_mask(inputs[1]);
  require(given == 1 || given == 3 || given == 4 || is_masked || (turns_ && (given == 2 || given == 5)), [&] {
    return message(
        "MultiHeadAttention: takes x, or query, key, value",
        turns_ ? " and maybe a mask, and positions behind either, not "
               : ", and maybe a mask behind either, of four axes behind x, not ",
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
  const bool placed = turns_ && (given == 2 || given == 5);
  const NDArray mask = given == 4 || given == 5 ? inputs[3] : is_masked ? inputs[1] : NDArray();
  const bool at_once = is_self && (!placed || inputs[1].defined());  // positions that are none are an error below
  if (const NDArray qkv = at_once ? projected(inputs[0], site) : NDArray(); qkv.defined())
    return {out_(attended_at_once(qkv, mask, placed ? inputs[1] : NDArray(), site))};
  NDArray q = split_heads(query_(inputs[0]), num_heads_, site);
  NDArray k = split_heads(key_(inputs[is_self ? 0 : 1]), kv_heads_, site);
  if (turns_) {
    q = placed ? rotary_(q, inputs.back()) : rotary_(q);
    k = given == 2 ? rotary_(k, inputs.back()) : rotary_(k);
  }
  const NDArray v = split_heads(value_(inputs[is_self ? 0 : 2]), kv_heads_, site);
  const AttentionOptions how{.mask = mask, .causal = causal_, .dropout = dropout_};
  return {out_(join_heads(scaled_dot_product_attention(q, k, v, how, site), site))};
}

// In training, where each step has other weights. Otherwise these may be put side by side more often than they change,
// and for a few rows that takes longer than their product. What decides is no extent of x, which traces of all batches
// share, and the same by hand and in a graph.
NDArray MultiHeadAttention::projected(const NDArray& x, SourceLocation site) const {
  if (!autograd::is_training())
    return {};
  const std::array<const Dense*, 3> layers{unwatched(query_), unwatched(key_), unwatched(value_)};
  const std::array<std::int64_t, 3> units{num_heads_ * width_, kv_heads_ * width_, kv_heads_ * width_};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == nullptr || layers[i]->units_ != units[i])
      return {};
  }
  return Dense::side_by_side(layers, x, site);
}

NDArray MultiHeadAttention::attended_at_once(
    const NDArray& qkv, const NDArray& mask, const NDArray& positions, SourceLocation site) const {
  const AttentionOptions how{.mask = mask, .causal = causal_, .dropout = dropout_};
  if (!turns_)
    return packed_attention(qkv, num_heads_, kv_heads_, how, site);
  const std::int64_t of_keys = num_heads_ * width_, of_values = of_keys + kv_heads_ * width_;
  // Slices, which graphs know to be views.
  const auto part = [&](std::int64_t begin, std::int64_t end) { return qkv.slice(2, begin, end, 1, site); };
  const auto turned = [&](const NDArray& x, std::int64_t heads) {
    const NDArray apart = split_heads(x, heads, site);
    return positions.defined() ? rotary_(apart, positions) : rotary_(apart);
  };
  const NDArray q = turned(part(0, of_keys), num_heads_), k = turned(part(of_keys, of_values), kv_heads_);
  const NDArray v = split_heads(part(of_values, of_values + kv_heads_ * width_), kv_heads_, site);
  return join_heads(scaled_dot_product_attention(q, k, v, how, site), site);
}

KeyValueCache MultiHeadAttention::make_cache(std::int64_t batch, std::int64_t length, Device device) const {
  require(batch >= 1 && length >= 1, [&] {
    return message("MultiHeadAttention: a cache of ", length, " positions of ", batch, " sequences; one at least");
  });
  const Parameter weight = key_->own_parameter("weight");
  const ArrayOptions as{.dtype = weight.dtype(), .device = device};
  const Shape shape{batch, kv_heads_, length, width_};
  return {zeros(shape, as), zeros(shape, as)};
}

NDArray MultiHeadAttention::step(
    const NDArray& x,
    const NDArray& position,
    const NDArray& seen,
    const KeyValueCache& cache,
    SourceLocation site) const {
  require<ShapeError>(x.defined() && sluice::detail::unseen_shape(x).ndim() == 3, [&] {
    return message("MultiHeadAttention: a step takes (N, length, channels), not ", x.shape());
  });
  const std::int64_t steps = sluice::detail::unseen_shape(x)[1];
  const NDArray positions =
      add(position, arange(0, static_cast<double>(steps), 1, {.dtype = int64, .device = x.device()}), site);
  NDArray q = split_heads(query_(x, site), num_heads_, site);
  NDArray k = split_heads(key_(x, site), kv_heads_, site);
  if (turns_) {
    q = rotary_(q, positions, site);
    k = rotary_(k, positions, site);
  }
  cache.keys.assign({{}, {}, positions}, k, site);
  cache.values.assign({{}, {}, positions}, split_heads(value_(x, site), kv_heads_, site), site);
  const NDArray keys = cache.keys.astype(q.dtype(), site), values = cache.values.astype(q.dtype(), site);
  return out_(
      join_heads(scaled_dot_product_attention(q, keys, values, {.mask = seen, .dropout = dropout_}, site), site), site);
}

NDArray causal_mask(const NDArray& position, std::int64_t steps, std::int64_t length, SourceLocation site) {
  const ArrayOptions as{.dtype = int64, .device = position.device()};
  const NDArray rows = add(position, arange(0, static_cast<double>(steps), 1, as).expand_dims(1), site);
  return less_equal(arange(0, static_cast<double>(length), 1, as), rows, site);
}

}  // namespace sluice::gluon::nn
