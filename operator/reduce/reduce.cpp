#include <algorithm>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::ReduceAttributes;
using detail::TermsAttributes;

// -- Shape rules ------------------------------------------------------------------------------------------------

ArraySpec reduced_spec(std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<ReduceAttributes>();
  return {detail::reduced_shape(inputs[0].shape, a.axes, a.keepdims), inputs[0].dtype, inputs[0].device};
}

Specs infer_sum(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = reduced_spec(inputs, attributes);
  if (!is_floating(spec.dtype))
    spec.dtype = int64;
  return {spec};
}

Specs infer_mean(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<DTypeError>(
      is_floating(inputs[0].dtype), [&] { return message("mean: takes floating types, not ", inputs[0].dtype); });
  return {reduced_spec(inputs, attributes)};
}

void check_not_empty(const char* op, const ArraySpec& input, const Shape& axes) {
  for (std::int64_t axis : axes) {
    require<ValueError>(input.shape[static_cast<int>(axis)] > 0, [&] {
      return message(op, ": nothing to reduce along axis ", axis, " of shape ", input.shape);
    });
  }
}

template <bool Largest>
Specs infer_extreme(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_not_empty(Largest ? "max" : "min", inputs[0], attributes.as<ReduceAttributes>().axes);
  return {reduced_spec(inputs, attributes)};
}

template <bool Largest>
Specs infer_arg(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_not_empty(Largest ? "argmax" : "argmin", inputs[0], attributes.as<ReduceAttributes>().axes);
  ArraySpec spec = reduced_spec(inputs, attributes);
  spec.dtype = int64;
  return {spec};
}

// -- Gradients --------------------------------------------------------------------------------------------------

// Something of the result's shape, with the reduced axes put back as 1 as far as broadcasting does not do it by itself.
NDArray aligned(const NDArray& reduced, const ReduceAttributes& a) {
  NDArray kept = reduced;
  int leading = 0;
  for (int i = 0; i < a.axes.ndim() && !a.keepdims; ++i) {
    const int axis = static_cast<int>(a.axes[i]);
    if (axis == leading)
      ++leading;
    else
      kept = kept.expand_dims(axis - leading);
  }
  return kept;
}

// The same, stretched over the input. No extent stands in the calls: the batch may be another when they are replayed.
NDArray stretch(const NDArray& reduced, const GradientCall& call) {
  const NDArray like = shape_only(call.input_specs[0]);
  const NDArray kept = aligned(reduced, call.attributes.as<ReduceAttributes>());
  return invoke_one(detail::k_broadcast_like, {kept, like}, {}, SourceLocation::current());
}

Arrays gradient_sum(const GradientCall& call) {
  return {stretch(call.output_grads[0], call)};
}

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

constinit const Operator k_divide_by_terms = {
    .name = "divide_by_terms",
    .inputs = 2,
    .attributes = &attribute_type<TermsAttributes>,
    .infer = infer_divided,
    .composition = divided,
    .gradient = gradient_divided,
    .shape_inputs = 0b10,
};

Arrays gradient_mean(const GradientCall& call) {
  const NDArray like = shape_only(call.input_specs[0]);
  const TermsAttributes terms{call.attributes.as<ReduceAttributes>().axes};
  const SourceLocation site = SourceLocation::current();
  return {stretch(invoke_one(k_divide_by_terms, {call.output_grads[0], like}, Attributes::of(terms), site), call)};
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

// The gradient as a function of x that can itself be differentiated where factors are zero.
NDArray recorded_gradient_prod(const NDArray& x, const NDArray& dy, const Shape& axes) {
  Shape order, back = Shape::filled(x.ndim(), 0);
  std::int64_t terms = 1;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      order.push_back(axis);
  }
  for (std::int64_t axis : axes) {
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

// The product of the other factors, exact where factors are zero: with one zero only that factor has a gradient,
// with two none has.
Arrays gradient_prod(const GradientCall& call) {
  const NDArray& x = call.inputs[0];
  const auto& a = call.attributes.as<ReduceAttributes>();
  if (autograd::is_recording())
    return {recorded_gradient_prod(x, stretch(call.output_grads[0], call), a.axes)};
  const NDArray zero = (x == 0).astype(x.dtype());
  const NDArray zeros = sum(zero, a.axes, true);
  const NDArray safe = x + zero;
  const NDArray others = prod(safe, a.axes, true) / safe;
  const NDArray none = (zeros == 0).astype(x.dtype());
  const NDArray one = (zeros == 1).astype(x.dtype());
  return {stretch(call.output_grads[0], call) * others * (zero * one + (1 - zero) * none)};
}

Arrays gradient_extreme(const GradientCall& call) {
  const NDArray& x = call.inputs[0];
  const auto& a = call.attributes.as<ReduceAttributes>();
  // Beside a NaN, which wins, the gradient is of the NaNs.
  const NDArray ties = logical_or(x == aligned(call.outputs[0], a), isnan(x));
  // Counted in whole numbers: float16 would stop at 2048.
  const NDArray count = sum(ties, a.axes, a.keepdims).astype(x.dtype() == float64 ? float64 : float32);
  const NDArray share = (call.output_grads[0] / count).astype(x.dtype());
  return {where(ties, aligned(share, a), 0)};
}

// -- Calls ------------------------------------------------------------------------------------------------------

// Counted from the front, in order, each once; none are all.
bool normalise(const RawCall& call, NormalCall& normal) {
  const auto& given = call.attributes.as<ReduceAttributes>();
  const Shape& shape = call.inputs[0].shape();
  boost::container::small_vector<std::int64_t, k_max_ndim> sorted;
  for (std::int64_t axis : given.axes)
    sorted.push_back(normal_axis(axis, shape.ndim(), call.op.name));
  for (int axis = 0; given.axes.empty() && axis < shape.ndim(); ++axis)
    sorted.push_back(axis);
  std::sort(sorted.begin(), sorted.end());
  require<ValueError>(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), [&] {
    return message(call.op.name, ": axes ", given.axes, " name an axis of shape ", shape, " twice");
  });
  const Shape axes(std::span<const std::int64_t>(sorted.data(), sorted.size()));
  return axes != given.axes && detail::with_attributes(call, ReduceAttributes{axes, given.keepdims}, normal);
}

NDArray reduce(const Operator& op, const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(ReduceAttributes{axes, keepdims}), site);
  });
}

NDArray reduce_one(const Operator& op, const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    return reduce(op, x, {normal_axis(axis, detail::object_of(x, op.name).shape.ndim(), op.name)}, keepdims, site);
  });
}

}  // namespace

constinit const Operator k_sum = {
    .name = "sum",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_sum,
    .cpu = detail::sum_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::sum_gpu),
    .gradient = gradient_sum,
    .strided_inputs = k_all,
};
constinit const Operator k_mean = {
    .name = "mean",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_mean,
    .cpu = detail::mean_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::mean_gpu),
    .gradient = gradient_mean,
    .strided_inputs = k_all,
};
constinit const Operator k_prod = {
    .name = "prod",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_sum,
    .cpu = detail::prod_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::prod_gpu),
    .gradient = gradient_prod,
    .saved_inputs = k_all,
    .strided_inputs = k_all,
};
constinit const Operator k_max = {
    .name = "max",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_extreme<true>,
    .cpu = detail::max_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::max_gpu),
    .gradient = gradient_extreme,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .strided_inputs = k_all,
};
constinit const Operator k_min = {
    .name = "min",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_extreme<false>,
    .cpu = detail::min_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::min_gpu),
    .gradient = gradient_extreme,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .strided_inputs = k_all,
};
constinit const Operator k_argmax = {
    .name = "argmax",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_arg<true>,
    .cpu = detail::argmax_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::argmax_gpu),
    .strided_inputs = k_all,
};
constinit const Operator k_argmin = {
    .name = "argmin",
    .attributes = &attribute_type<ReduceAttributes>,
    .normalise = normalise,
    .infer = infer_arg<false>,
    .cpu = detail::argmin_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::argmin_gpu),
    .strided_inputs = k_all,
};

NDArray sum(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return reduce(k_sum, x, axes, keepdims, site);
}

NDArray mean(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    if (is_floating(detail::object_of(x, "mean").dtype))
      return reduce(k_mean, x, axes, keepdims, site);
    if (x.dtype() == int64)  // whose sums may not fit
      return reduce(k_mean, x.astype(float64, site), axes, keepdims, site).astype(float32, site);
    // Added up exactly, rounded once.
    const NDArray total = sum(x, axes, keepdims, site);
    const double terms = total.size() == 0 ? 1 : static_cast<double>(x.size()) / static_cast<double>(total.size());
    return divide(total.astype(float32, site), terms, site);
  });
}

NDArray prod(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return reduce(k_prod, x, axes, keepdims, site);
}

NDArray max(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return reduce(k_max, x, axes, keepdims, site);
}

NDArray min(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return reduce(k_min, x, axes, keepdims, site);
}

NDArray argmax(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return reduce_one(k_argmax, x, axis, keepdims, site);
}

NDArray argmin(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return reduce_one(k_argmin, x, axis, keepdims, site);
}

detail::OperatorList detail::reduce_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_sum, &k_mean, &k_prod, &k_max, &k_min, &k_argmax, &k_argmin, &k_divide_by_terms};
  return list;
}

}  // namespace sluice
