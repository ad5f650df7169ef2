#include <cmath>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/nn/transformer.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>

namespace sluice::gluon::nn {

namespace {

MultiHeadAttention attention_of(
    std::int64_t units,
    std::int64_t num_heads,
    bool causal,
    const TransformerOptions& options,
    const std::optional<RotaryOptions>& rotary) {
  return MultiHeadAttention(
      units,
      num_heads,
      {.dropout = options.attention_dropout,
       .causal = causal,
       .use_bias = options.use_bias,
       .weight_initializer = options.weight_initializer,
       .rotary = rotary});
}

LayerNorm norm_of(std::int64_t units, const TransformerOptions& options) {
  return LayerNorm({.epsilon = options.layer_norm_eps, .in_channels = units});
}

Dense product_of(std::int64_t units, std::string activation, const TransformerOptions& options) {
  return Dense(
      units,
      {.activation = std::move(activation),
       .use_bias = options.use_bias,
       .flatten = false,
       .weight_initializer = options.weight_initializer});
}

OptionNotes layer_notes(
    std::int64_t units, std::int64_t hidden, std::int64_t num_heads, const TransformerOptions& options) {
  const TransformerOptions usual;
  return OptionNotes()
      .add("units", units)
      .add("hidden", hidden)
      .add("num_heads", num_heads)
      .add("pre_norm", options.pre_norm, usual.pre_norm)
      .add("causal", options.causal, usual.causal);
}

/// x and what `part` makes of it, the norm before `part` or behind the sum.
template <class Part>
NDArray with_sum(const NDArray& x, bool pre_norm, const Child<LayerNorm>& norm, const Part& part) {
  if (pre_norm)
    return x + part(norm(x));
  return norm(x + part(x));
}

template <class Layer>
std::vector<std::shared_ptr<Block>> layers_of(
    const char* what,
    std::int64_t count,
    std::int64_t units,
    std::int64_t hidden,
    std::int64_t num_heads,
    const TransformerOptions& options) {
  require(count >= 1, [&] { return message(what, ": ", count, " layers; there must be one at least"); });
  std::vector<std::shared_ptr<Block>> layers;
  for (std::int64_t i = 0; i < count; ++i)
    layers.push_back(std::make_shared<Layer>(units, hidden, num_heads, options));
  return layers;
}

void require_sequences(const NDArray& x, const char* what) {
  require<ShapeError>(x.ndim() == 3, [&] { return message(what, ": takes (N, length, units), not ", x.shape()); });
}

// To itself; what was put in the attention's place is told that query, key and value are.
NDArray attended_behind(const Child<MultiHeadAttention>& attention, const NDArray& x, const NDArray& mask) {
  const auto* const own = dynamic_cast<const MultiHeadAttention*>(&*Child<>(attention));
  const bool takes_two = mask.defined() && own != nullptr && typeid(*own) == typeid(MultiHeadAttention) &&
                         !own->is_rotary() && sluice::detail::unseen_shape(mask).ndim() == 4;
  return takes_two ? attention({x, mask})[0] : attention({x, x, x, mask})[0];
}

}  // namespace

PositionwiseFFN::PositionwiseFFN(std::int64_t units, std::int64_t hidden, const TransformerOptions& options)
    : first_(child("ffn_1", product_of(hidden, options.activation, options))),
      dropout_(child("dropout", Dropout(options.dropout))),
      second_(child("ffn_2", product_of(units, "", options))) {
  note_options(OptionNotes().add("units", units).add("hidden", hidden));
}

NDArray PositionwiseFFN::forward(const NDArray& x) const {
  return second_(dropout_(first_(x)));
}

TransformerEncoderLayer::TransformerEncoderLayer(
    std::int64_t units, std::int64_t hidden, std::int64_t num_heads, const TransformerOptions& options)
    : pre_norm_(options.pre_norm),
      attention_(child("attention", attention_of(units, num_heads, options.causal, options, options.rotary))),
      norm_1_(child("norm_1", norm_of(units, options))),
      ffn_(child("ffn", PositionwiseFFN(units, hidden, options))),
      norm_2_(child("norm_2", norm_of(units, options))),
      dropout_(child("dropout", Dropout(options.dropout))) {
  note_options(layer_notes(units, hidden, num_heads, options));
}

Arrays TransformerEncoderLayer::forward_all(std::span<const NDArray> inputs) const {
  const bool is_masked = inputs.size() == 2;
  if (!is_masked)
    require_inputs(inputs, 1);
  const OriginScope here(call_site());
  const NDArray attended = with_sum(inputs[0], pre_norm_, norm_1_, [&](const NDArray& x) {
    return dropout_(is_masked ? attended_behind(attention_, x, inputs[1]) : attention_(x));
  });
  return {with_sum(attended, pre_norm_, norm_2_, [&](const NDArray& x) { return dropout_(ffn_(x)); })};
}

NDArray TransformerEncoderLayer::step(
    const NDArray& x,
    const NDArray& position,
    const NDArray& seen,
    const KeyValueCache& cache,
    SourceLocation site) const {
  const OriginScope here(site);
  const NDArray attended = with_sum(x, pre_norm_, norm_1_, [&](const NDArray& normed) {
    return dropout_(attention_->step(normed, position, seen, cache, site));
  });
  return with_sum(attended, pre_norm_, norm_2_, [&](const NDArray& normed) { return dropout_(ffn_(normed)); });
}

TransformerDecoderLayer::TransformerDecoderLayer(
    std::int64_t units, std::int64_t hidden, std::int64_t num_heads, const TransformerOptions& options)
    : pre_norm_(options.pre_norm),
      self_attention_(child("self_attention", attention_of(units, num_heads, true, options, options.rotary))),
      norm_1_(child("norm_1", norm_of(units, options))),
      attention_(child("attention", attention_of(units, num_heads, false, options, {}))),
      norm_2_(child("norm_2", norm_of(units, options))),
      ffn_(child("ffn", PositionwiseFFN(units, hidden, options))),
      norm_3_(child("norm_3", norm_of(units, options))),
      dropout_(child("dropout", Dropout(options.dropout))) {
  note_options(layer_notes(units, hidden, num_heads, options));
}

Arrays TransformerDecoderLayer::forward_all(std::span<const NDArray> inputs) const {
  const bool is_masked = inputs.size() == 3;
  if (!is_masked)
    require_inputs(inputs, 2);
  const OriginScope here(call_site());
  const NDArray& memory = inputs[1];
  const NDArray own =
      with_sum(inputs[0], pre_norm_, norm_1_, [&](const NDArray& x) { return dropout_(self_attention_(x)); });
  const NDArray attended = with_sum(own, pre_norm_, norm_2_, [&](const NDArray& x) {
    return dropout_(is_masked ? attention_({x, memory, memory, inputs[2]})[0] : attention_({x, memory, memory})[0]);
  });
  return {with_sum(attended, pre_norm_, norm_3_, [&](const NDArray& x) { return dropout_(ffn_(x)); })};
}

TransformerStack::TransformerStack(
    std::vector<std::shared_ptr<Block>> layers, std::int64_t units, const TransformerOptions& options)
    : has_norm_(options.pre_norm) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers_.push_back(child(std::to_string(i), std::move(layers[i])));
  if (has_norm_)
    norm_ = child("norm", norm_of(units, options));
}

Arrays TransformerStack::forward_all(std::span<const NDArray> inputs) const {
  require(!inputs.empty(), [] { return "a transformer takes a sequence, and was given no array"; });
  std::vector<NDArray> given(inputs.begin(), inputs.end());
  for (const auto& layer : layers_)
    given[0] = layer.call(given)[0];
  return {ended(given[0], call_site())};
}

NDArray TransformerStack::ended(const NDArray& x, SourceLocation site) const {
  return has_norm_ ? norm_(x, site) : x;
}

TransformerEncoder::TransformerEncoder(
    std::int64_t layers,
    std::int64_t units,
    std::int64_t hidden,
    std::int64_t num_heads,
    const TransformerOptions& options)
    : TransformerStack(
          layers_of<TransformerEncoderLayer>("nn::TransformerEncoder", layers, units, hidden, num_heads, options),
          units,
          options) {}

std::vector<KeyValueCache> TransformerEncoder::make_caches(
    std::int64_t batch, std::int64_t length, Device device) const {
  std::vector<KeyValueCache> caches;
  for (const Child<>& layer : layers())
    caches.push_back(layer.as<TransformerEncoderLayer>()->attention()->make_cache(batch, length, device));
  return caches;
}

NDArray TransformerEncoder::step(
    const NDArray& x, const NDArray& position, const std::vector<KeyValueCache>& caches, SourceLocation site) const {
  require_sequences(x, "TransformerEncoder");
  require(caches.size() == size(), [&] {
    return message("TransformerEncoder: ", caches.size(), " caches for ", size(), " layers");
  });
  const std::int64_t length = caches[0].keys.shape()[2];
  const NDArray seen = causal_mask(position, sluice::detail::unseen_shape(x)[1], length, site);
  NDArray y = x;
  for (std::size_t i = 0; i < caches.size(); ++i)
    y = layers()[i].as<TransformerEncoderLayer>()->step(y, position, seen, caches[i], site);
  return ended(y, site);
}

TransformerDecoder::TransformerDecoder(
    std::int64_t layers,
    std::int64_t units,
    std::int64_t hidden,
    std::int64_t num_heads,
    const TransformerOptions& options)
    : TransformerStack(
          layers_of<TransformerDecoderLayer>("nn::TransformerDecoder", layers, units, hidden, num_heads, options),
          units,
          options) {}

NDArray SinusoidalPositions::forward(const NDArray& x) const {
  require_sequences(x, "SinusoidalPositions");
  const std::int64_t length = x.shape()[1], units = x.shape()[2];
  require<ShapeError>(units % 2 == 0, [&] {
    return message("SinusoidalPositions: ", units, " units do not divide into sines and cosines");
  });
  const OriginScope here(call_site());
  const ArrayOptions as{.dtype = float64, .device = x.device()};
  const NDArray positions = arange(0, static_cast<double>(length), 1, as).expand_dims(1);
  const NDArray powers =
      arange(0, static_cast<double>(units / 2), 1, as) * (-2 * std::log(1e4) / static_cast<double>(units));
  const NDArray angles = positions * exp(powers);
  return x + concat({sin(angles), cos(angles)}, 1).astype(x.dtype());
}

LearnedPositions::LearnedPositions(std::int64_t max_length, std::int64_t units, init::Initializer weight_initializer)
    : max_length_(max_length),
      weight_(parameter("weight", {.shape = {max_length, units}, .init = std::move(weight_initializer)})) {
  require(max_length >= 1 && units >= 1, [&] {
    return message("nn::LearnedPositions: ", max_length, " positions of ", units, " units; there must be one at least");
  });
  note_options(OptionNotes().add("max_length", max_length).add("units", units));
}

Arrays LearnedPositions::forward_all(std::span<const NDArray> inputs) const {
  if (inputs.size() != 2)
    require_inputs(inputs, 1);
  const NDArray& x = inputs[0];
  require_sequences(x, "LearnedPositions");
  const std::int64_t length = sluice::detail::unseen_shape(x)[1];
  require<ShapeError>(length <= max_length_, [&] {
    return message("LearnedPositions: a sequence of ", length, " has no more than ", max_length_, " positions");
  });
  const SourceLocation site = call_site();
  if (inputs.size() == 1)
    return {add(x, weight_.data().slice(0, 0, length), site)};
  const NDArray& first = inputs[1];
  require<ShapeError>(sluice::detail::unseen_shape(first).ndim() == 0, [&] {
    return message("LearnedPositions: the position of the first has no axes, not ", first.shape());
  });
  const NDArray steps = arange(0, static_cast<double>(length), 1, {.dtype = int64, .device = x.device()});
  return {add(x, take(weight_.data(), add(first, steps, site), 0), site)};
}

}  // namespace sluice::gluon::nn
