#include <algorithm>
#include <limits>

#include <sluice/operator/concat/concat.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/product_gradient.h>
#include <sluice/operator/reduce/reduce.h>

// The gradient of a product is dy times the product of the other factors. That may fit float64 where products on the
// way to it do not: rows of factors where this can be are multiplied by logarithms, or, where that is to be
// differentiated again, as numbers near 1 and powers of two. Other rows stay as they are: whole numbers give whole
// gradients.
namespace sluice::detail {

namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();
// Factors the magnitudes of whose logarithms add up to less have no partial products that do not fit.
constexpr double k_fitting = 1000;
// Nor have these, in a product with some that were brought near 1.
constexpr double k_small = 200;
// So often numbers near 1 are multiplied by one another before they are brought near 1 again. 2^8 of them are within
// 2^128; coming down, so much is gained every 8 levels, which no array has enough of to leave the type.
constexpr int k_levels = 8;

/// number * 2^exponent; exponents are whole, and constants of every gradient.
struct Scaled {
  NDArray number, exponent;
};

/// x * 2^exponent, of an exponent that may be as large as it likes: 0 stays 0.
NDArray times_power_of_two(const NDArray& x, const NDArray& exponent) {
  constexpr double k_most = 1022;
  const NDArray half = clip(trunc(exponent / 2), -k_most, k_most), rest = clip(exponent - half, -k_most, k_most);
  return x * power(2, half) * power(2, rest);
}

Scaled near_one(const Scaled& x, const Shape& axes) {
  NDArray exponent;
  {
    const autograd::PauseScope constants;
    const NDArray size = abs(x.number.detach());
    const NDArray logs = log2(where(logical_and(size > 0, size < k_infinity), size, 1));
    exponent = where(sum(abs(logs), axes, true) < k_small, 0, round(logs));
  }
  return {times_power_of_two(x.number, -exponent), x.exponent + exponent};
}

Scaled joined(const Scaled& a, const Scaled& b) {
  return {a.number * b.number, a.exponent + b.exponent};
}

Scaled every_other(const Scaled& x, std::int64_t first) {
  const std::int64_t n = x.number.shape()[1];
  return {x.number.slice(1, first, n, 2), x.exponent.slice(1, first, n, 2)};
}

// Of every element of the last axis the product of the others, by halves: products of pairs going up, of the neighbour
// with what lies beyond the pair coming down. Nothing is divided, so zeros need no care, in gradients of this neither.
Scaled products_of_others(const Scaled& given, int level) {
  const std::int64_t n = given.number.shape()[1], rows = given.number.shape()[0];
  if (n <= 1)
    return {ones_like(given.number), zeros_like(given.exponent)};
  if (n % 2 != 0) {
    const NDArray one = ones({rows, 1}, {.dtype = float64, .device = given.number.device()});
    const NDArray numbers = concat({given.number, one}, 1), exponents = concat({given.exponent, zeros_like(one)}, 1);
    const Scaled others = products_of_others({numbers, exponents}, level);
    return {others.number.slice(1, 0, n), others.exponent.slice(1, 0, n)};
  }
  const Scaled x = level % k_levels == 0 ? near_one(given, {1}) : given;
  const Scaled even = every_other(x, 0), odd = every_other(x, 1);
  const Scaled beyond = products_of_others(joined(even, odd), level + 1);
  const Scaled of_even = joined(odd, beyond), of_odd = joined(even, beyond);
  return {
      stack({of_even.number, of_odd.number}, 2).reshape({rows, n}),
      stack({of_even.exponent, of_odd.exponent}, 2).reshape({rows, n})};
}

/// Whether another of the terms along `axes` is marked.
NDArray elsewhere(const NDArray& marks, const Shape& axes) {
  return sum(marks, axes, true) > marks;
}

// Of every factor the product of the others, in few passes and without an extent: by dividing the product of all, or
// where that or a partial one might not fit, by logarithms, of zeros and infinities as if they were 1. A NaN is
// everywhere in its row.
NDArray product_without(const NDArray& factors, const Shape& axes) {
  const NDArray size = abs(factors), zero = size == 0, infinite = size == k_infinity;
  const NDArray special = logical_or(zero, infinite), signs = where(zero, 1, sign(factors));
  const NDArray safe = where(special, signs, factors), logs = log2(where(special, 1, size));
  const NDArray fits = sum(abs(logs), axes, true) < k_fitting, sign_of_others = prod(signs, axes, true) * signs;
  const NDArray by_logs = power(2, sum(logs, axes, true) - logs) * sign_of_others;
  const NDArray others = where(fits, prod(safe, axes, true) / safe, by_logs);
  // However large or small the others, beside a zero they are 0, beside infinities infinite, beside both NaN.
  const NDArray beside_infinity = elsewhere(infinite, axes), number = where(beside_infinity, sign_of_others, others);
  const NDArray result = where(elsewhere(zero, axes), minimum(abs(number), 0), number);
  return result * where(beside_infinity, k_infinity, ones_like(factors));
}

Specs infer_prod_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Shape &x = inputs[0].shape, &axes = attributes.as<TermsAttributes>().axes;
  for (const std::int64_t axis : axes)
    normal_axis(axis, x.ndim(), op.name);
  require<DTypeError>(is_floating(inputs[0].dtype) && inputs[0].dtype == inputs[1].dtype, [&] {
    return message(op.name, ": takes one floating type, not ", inputs[0].dtype, " and ", inputs[1].dtype);
  });
  require<ShapeError>(inputs[1].shape.size() == reduced_shape(x, axes, false).size(), [&] {
    return message(op.name, ": heads of shape ", inputs[1].shape, " of products along ", axes, " of shape ", x);
  });
  return {inputs[0]};
}

Arrays composed_gradient(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation) {
  const NDArray &x = inputs[0], &dy = inputs[1];
  const NDArray others = product_without(x.astype(float64), attributes.as<TermsAttributes>().axes);
  return {(dy.astype(float64) * others).astype(x.dtype())};
}

}  // namespace

constinit const Operator k_prod_backward = {
    .name = "prod_backward",
    .inputs = 2,
    .attributes = &attribute_type<TermsAttributes>,
    .infer = infer_prod_backward,
    .kernels = {on_cpu(prod_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(prod_backward_gpu))},
    .composition = composed_gradient,
};

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
  const NDArray last = x.astype(float64).transpose(order), rows = last.reshape({-1, terms});
  const Scaled scaled = products_of_others({rows, zeros_like(rows)}, 0);
  const NDArray others = times_power_of_two(scaled.number, scaled.exponent).reshape(last.shape()).transpose(back);
  return (dy.astype(float64) * others).astype(x.dtype());
}

NDArray ReductionGradient::of_product(const NDArray& x, const NDArray& dy) const {
  if (autograd::is_recording())
    return recorded_of_product(x, dy);
  return invoke_one(k_prod_backward, {x, dy}, Attributes::of(TermsAttributes{axes_}), SourceLocation::current());
}

}  // namespace sluice::detail
