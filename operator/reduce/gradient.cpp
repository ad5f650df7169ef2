#include <algorithm>
#include <limits>

#include <sluice/operator/concat/concat.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace detail {

namespace {

// -- divide_by_terms: the first input by the number of terms that a reduction of the second one has --------------
Specs infer_divided(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  for (const std::int64_t axis : attributes.as<TermsAttributes>().axes)
    normal_axis(axis, inputs[1].shape.ndim(), op.name);
  require<DTypeError>(
      is_floating(inputs[0].dtype), [&] { return message(op.name, ": takes floating types, not ", inputs[0].dtype); });
  return {inputs[0]};
}

Arrays divided(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<TermsAttributes>();
  const Shape& shape = inputs[1].shape();
  double terms = 1;
  for (const std::int64_t axis : a.axes)
    terms *= static_cast<double>(shape[normal_axis(axis, shape.ndim(), "divide_by_terms")]);
  return {divide(inputs[0], std::max(terms - static_cast<double>(a.fewer), 0.0), site)};
}

Arrays gradient_divided(const GradientCall& call) {
  const NDArray like = shape_only(call.input_specs[1]);
  return {invoke_one(call.op, {call.output_grads[0], like}, call.attributes, SourceLocation::current()), NDArray()};
}

// Of every element of the last axis the product of the others, by halves: products of pairs going up, of the neighbour
// with what lies beyond the pair coming down. Nothing is divided, so zeros need no care, in gradients of this neither.
NDArray products_of_others(const NDArray& x) {
  const std::int64_t n = x.shape()[1], rows = x.shape()[0];
  if (n <= 1)
    return ones_like(x);
  if (n % 2 != 0) {
    const NDArray one = ones({rows, 1}, {.dtype = x.dtype(), .device = x.device()});
    return products_of_others(concat({x, one}, 1)).slice(1, 0, n);
  }
  const NDArray even = x.slice(1, 0, n, 2), odd = x.slice(1, 1, n, 2);
  const NDArray beyond = products_of_others(even * odd);
  return stack({odd * beyond, even * beyond}, 2).reshape({rows, n});
}

// The product of all but each; of what is not 0. From sums of logarithms in a wider type, so that it does not matter
// whether the product of all fits the type; float64 has none. Finite: beside zeros it is multiplied by 0.
NDArray products_without(const NDArray& safe, const Shape& axes, DType dtype) {
  if (dtype == float64)
    return prod(safe, axes, true) / safe;
  const NDArray logs = log(abs(safe)), signs = sign(safe);
  return finite(exp(sum(logs, axes, true) - logs)) * prod(signs, axes, true) * signs;
}

}  // namespace

constinit const Operator k_divide_by_terms = {
    .name = "divide_by_terms",
    .inputs = 2,
    .attributes = &attribute_type<TermsAttributes>,
    .infer = infer_divided,
    .composition = divided,
    .gradient = gradient_divided,
    .shape_inputs = 0b10,
};

NDArray ReductionGradient::aligned(const NDArray& reduced) const {
  NDArray kept = reduced;
  int leading = 0;
  for (int i = 0; i < axes_.ndim() && !keepdims_; ++i) {
    const int axis = static_cast<int>(axes_[i]);
    if (axis == leading)
      ++leading;
    else
      kept = kept.expand_dims(axis - leading);
  }
  return kept;
}

NDArray ReductionGradient::stretched(const NDArray& aligned) const {
  return invoke_one(k_broadcast_like, {aligned, shape_only(call_.input_specs[0])}, {}, SourceLocation::current());
}

NDArray ReductionGradient::per_term(const NDArray& aligned) const {
  const NDArray like = shape_only(call_.input_specs[0]);
  const Attributes terms = Attributes::of(TermsAttributes{axes_, ddof_});
  return invoke_one(k_divide_by_terms, {aligned, like}, terms, SourceLocation::current());
}

NDArray ReductionGradient::centred(const NDArray& x) const {
  return x - mean(x, axes_, true);
}

NDArray ReductionGradient::shared(const NDArray& x, const NDArray& y, const NDArray& dy) const {
  const NDArray ties = logical_or(x == y, isnan(x));
  // Counted in whole numbers: float16 would stop at 2048.
  const NDArray count = aligned(sum(ties, axes_, keepdims_));
  return where(ties, (dy / count.astype(x.dtype() == float64 ? float64 : float32)).astype(x.dtype()), 0);
}

NDArray ReductionGradient::in_shares(const NDArray& x, const NDArray& dy) const {
  return x * (dy / nonzero(sum(x, axes_, true)));
}

// The gradient as a function of x that can itself be differentiated where factors are zero.
NDArray ReductionGradient::recorded_of_product(const NDArray& x, const NDArray& dy) const {
  Shape order, back = Shape::filled(x.ndim(), 0);
  std::int64_t terms = 1;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end())
      order.push_back(axis);
  }
  for (const std::int64_t axis : axes_) {
    order.push_back(axis);
    terms *= x.shape()[static_cast<int>(axis)];
  }
  for (int i = 0; i < order.ndim(); ++i)
    back[static_cast<int>(order[i])] = i;
  if (x.size() == 0)
    return dy * x;
  const NDArray last = widened(x).transpose(order);
  const NDArray others = products_of_others(last.reshape({-1, terms})).reshape(last.shape()).transpose(back);
  return (widened(dy) * others).astype(x.dtype());
}

// With one zero only that factor has a gradient, with two none has.
NDArray ReductionGradient::of_product(const NDArray& x, const NDArray& dy) const {
  if (autograd::is_recording())
    return recorded_of_product(x, dy);
  const NDArray factors = x.astype(float64);
  const NDArray zero = (factors == 0).astype(factors.dtype());
  const NDArray zeros = sum(zero, axes_, true);
  const NDArray safe = factors + zero;
  const NDArray others = products_without(safe, axes_, x.dtype());
  const NDArray none = (zeros == 0).astype(factors.dtype());
  const NDArray one = (zeros == 1).astype(factors.dtype());
  return (dy.astype(float64) * others * (zero * one + (1 - zero) * none)).astype(x.dtype());
}

}  // namespace detail

NDArray finite(const NDArray& y) {
  const double largest = y.dtype() == float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return clip(y, -largest, largest);
}

}  // namespace sluice
