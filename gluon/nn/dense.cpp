#include <algorithm>
#include <optional>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/matmul/matmul.h>

namespace sluice::gluon::nn {

Dense::Dense(std::int64_t units, DenseOptions options)
    : units_(units),
      flatten_(options.flatten),
      fused_relu_(options.activation == "relu"),
      activation_(fused_relu_ ? nullptr : detail::activation_function(options.activation)),
      weight_(parameter(
          "weight", {.shape = {units, options.in_units}, .dtype = options.dtype, .init = options.weight_initializer})),
      bias_(
          options.use_bias
              ? &parameter("bias", {.shape = {units}, .dtype = options.dtype, .init = options.bias_initializer})
              : nullptr) {
  require(units >= 1 && options.in_units >= 0, [&] {
    return message("nn::Dense: units = ", units, " and in_units = ", options.in_units, " must be >= 1 and >= 0");
  });
  const DenseOptions usual;
  note_options(OptionNotes()
                   .sizes("in_units", weight_, 1, "units", units)
                   .add("activation", options.activation, usual.activation)
                   .add("use_bias", options.use_bias, usual.use_bias)
                   .add("flatten", options.flatten, usual.flatten)
                   .add("dtype", options.dtype, usual.dtype));
}

void Dense::complete(const NDArray& x) const {
  require<ShapeError>(x.ndim() >= 1, [&] {
    return message("Dense: x of shape ", x.shape(), " has no axis of samples; it must be (N, ...)");
  });
  Shape sample = x.shape();  // known of an empty batch too
  sample.erase(0);
  const std::int64_t in = flatten_ ? sample.size() : x.shape().back();
  require<ShapeError>(
      in >= 1, [&] { return message("Dense: x of shape ", x.shape(), " has no features to multiply"); });
  weight_.complete({units_, in});
}

const NDArray& Dense::weight_for(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]]
    complete(x);
  const NDArray& weight = weight_.data();
  // The operator promotes; of a layer that is mostly a cast that somebody forgot.
  require<DTypeError>(gluon::detail::goes_with(x, weight), [&] {
    const bool is_network = is_floating(x.dtype());
    return message(
        "Dense: x is ",
        x.dtype(),
        ", weight is ",
        weight.dtype(),
        is_network ? "; cast one: x.astype(" : "; cast x: ToTensor() or x.astype(",
        weight.dtype(),
        is_network ? message("), or the network by cast(", x.dtype(), ")") : ")");
  });
  return weight;
}

NDArray Dense::forward(const NDArray& x) const {
  const NDArray& weight = weight_for(x);
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = dense(x, weight, bias, {.flatten = flatten_, .activation = fused_relu_ ? "relu" : ""}, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

// Joined weights have one gradient, which is computed for all of them: those that are frozen stay apart from others.
bool Dense::goes_beside(const Dense& first) const {
  const auto trains = [](const Parameter* parameter) {
    return parameter != nullptr && parameter->grad_req() != GradReq::null;
  };
  return !flatten_ && !fused_relu_ && activation_ == nullptr && (bias_ == nullptr) == (first.bias_ == nullptr) &&
         trains(&weight_) == trains(&first.weight_) && trains(bias_) == trains(first.bias_);
}

// Asked in this order: what is no longer deferred is there, whoever has completed it.
bool Dense::would_take(const NDArray& x) const {
  const Shape& shape = sluice::detail::unseen_shape(x);  // but for the batch's extent, the first one
  const std::int64_t features = shape.ndim() > 1 ? shape.back() : 0;
  if (weight_.is_deferred())
    return features > 0;
  return weight_.is_initialized() && gluon::detail::goes_with(x, weight_.data()) &&
         weight_.data().shape().back() == features && weight_.data().device() == x.device();
}

// Weights that autocast() would cast are converted as they are placed: one pass, not a second one over the whole.
NDArray Dense::side_by_side(std::span<const Dense* const> layers, const NDArray& x, SourceLocation site) {
  for (const Dense* const layer : layers) {
    if (layer == nullptr || !layer->goes_beside(*layers[0]))
      return {};
    if (!layer->would_take(x))
      return {};
  }
  Arrays weights, biases;
  for (const Dense* const layer : layers) {
    weights.push_back(layer->weight_for(x));
    if (layer->bias_ != nullptr)
      biases.push_back(layer->bias_->data());
  }
  const NDArray& first = weights[0];
  const auto is_other = [&](const NDArray& array) {
    return array.dtype() != first.dtype() || array.device() != first.device() || array.shape().back() == 0;
  };
  const bool one_width = std::all_of(
      weights.begin(), weights.end(), [&](const NDArray& weight) { return weight.shape()[1] == first.shape()[1]; });
  if (!one_width || std::any_of(weights.begin(), weights.end(), is_other) ||
      std::any_of(biases.begin(), biases.end(), is_other))
    return {};
  const std::optional<DType> low = amp::autocast_dtype();
  const bool is_cast = low && *low != first.dtype() && first.dtype() != float64 && x.dtype() != float64;
  const auto joined = [&](const Arrays& parts) {
    return is_cast ? concat(parts, 0, *low, site) : concat(parts, 0, site);
  };
  return dense(x, joined(weights), biases.empty() ? NDArray() : joined(biases), {.flatten = false}, site);
}

}  // namespace sluice::gluon::nn
