#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/bins.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/order.h>

namespace sluice {

namespace {

using detail::BincountAttributes;
using detail::HistogramAttributes;

Specs infer_bincount(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<BincountAttributes>();
  require<DTypeError>(is_integer(inputs[0].dtype), [&] {
    return message(op.name, ": what is counted is of an integer type, not ", inputs[0].dtype);
  });
  require<ValueError>(a.bins >= 0, [&] { return message(op.name, ": ", a.bins, " bins"); });
  return {{{a.bins}, int64, inputs[0].device}};
}

constinit const Operator k_bincount = {
    .name = "bincount",
    .attributes = &attribute_type<BincountAttributes>,
    .infer = infer_bincount,
    .kernels = {on_cpu(detail::bincount_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::bincount_gpu))},
};

// -- histogram ------------------------------------------------------------------------------------------------------

Specs infer_histogram(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<HistogramAttributes>();
  require<ValueError>(a.bins > 0 && a.bins < std::numeric_limits<std::int64_t>::max(), [&] {
    return message(op.name, ": ", a.bins, " bins");
  });
  require<ValueError>(std::isfinite(a.low) && std::isfinite(a.high) && a.low < a.high, [&] {
    return message(op.name, ": from ", a.low, " to ", a.high);
  });
  const Device device = inputs[0].device;
  return {{{a.bins}, int64, device}, {{a.bins + 1}, float64, device}};
}

// Whole numbers as float64.
bool normalise_histogram(const RawCall& call, NormalCall& normal) {
  const DType dtype = call.inputs[0].dtype();
  if (is_floating(dtype) || !detail::cast_inputs(call, float64, normal))
    return false;
  normal.attributes = call.attributes;
  return true;
}

constinit const Operator k_histogram = {
    .name = "histogram",
    .outputs = 2,
    .attributes = &attribute_type<HistogramAttributes>,
    .normalise = normalise_histogram,
    .infer = infer_histogram,
    .kernels = {on_cpu(detail::histogram_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::histogram_gpu))},
};

// -- quantile -------------------------------------------------------------------------------------------------------

struct QuantileAttributes {
  double q = 0.5;
  std::optional<std::int64_t> axis = {};  // none: all elements
  bool keepdims = false;

  template <class V>
  void visit(V&& v) {
    v.field("q", q);
    v.field("axis", axis);
    v.field("keepdims", keepdims);
  }
};

// Of a floating type, the axis counted from the front.
bool normalise_quantile(const RawCall& call, NormalCall& normal) {
  QuantileAttributes a = call.attributes.as<QuantileAttributes>();
  const std::optional<std::int64_t> given = a.axis;
  if (given)
    a.axis = normal_axis(*given, call.inputs[0].ndim(), call.op.name);
  const bool real = is_floating(call.inputs[0].dtype());
  if (real && a.axis == given)
    return false;
  detail::with_attributes(call, a, normal);
  if (!real)
    normal.inputs[0] = normal.inputs[0].astype(float32, call.site);
  return true;
}

Specs infer_quantile(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<QuantileAttributes>();
  require<ValueError>(a.q >= 0 && a.q <= 1, [&] { return message(op.name, ": q is ", a.q, ", not from 0 to 1"); });
  ArraySpec spec = inputs[0];
  const int axis = static_cast<int>(a.axis.value_or(0));
  require<ValueError>((a.axis ? spec.shape[axis] : spec.shape.size()) > 0, [&] {
    return message(op.name, ": no entries along axis ", axis, " of ", spec.shape);
  });
  if (!a.axis)
    spec.shape =
        a.keepdims ? Shape(std::vector<std::int64_t>(static_cast<std::size_t>(spec.shape.ndim()), 1)) : Shape{};
  else if (a.keepdims)
    spec.shape[axis] = 1;
  else
    spec.shape.erase(axis);
  return {spec};
}

Arrays compose_quantile(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_quantile = {
    .name = "quantile",
    .attributes = &attribute_type<QuantileAttributes>,
    .normalise = normalise_quantile,
    .infer = infer_quantile,
    .composition = compose_quantile,
};

// Between a and b in proportion, less than all of it and more than nothing; exact where they are alike, infinite ones
// too. Half of what lies between them fits where all of it does not.
NDArray between(const NDArray& a, const NDArray& b, double part) {
  const NDArray half = b * 0.5 - a * 0.5, made = part < 0.5 ? a + half * (2 * part) : b - half * (2 * (1 - part));
  return where(a == b, a, where(isfinite(half), made, a + b));
}

Arrays compose_quantile(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<QuantileAttributes>();
  const NDArray& x = inputs[0];
  const Shape shape = infer_quantile(k_quantile, detail::specs_of(inputs), attributes)[0].shape;
  const int along = static_cast<int>(a.axis.value_or(0));
  const NDArray row = a.axis ? x : x.reshape({-1}, site);
  const std::int64_t n = along == 0 ? row.shape()[0] : detail::extents_beside_batch(row)[along];
  const NDArray sorted = sort(row, along, false, site);
  const auto entry = [&](std::int64_t i) { return sorted.slice(along, i, i + 1, 1, site); };
  const double place = a.q * static_cast<double>(n - 1);
  const auto below = std::min(static_cast<std::int64_t>(place), n - 1);
  const NDArray low = entry(below), last = entry(n - 1).detach();
  // The next entry has no part in what lies on one, for it may be infinite.
  const double part = place - static_cast<double>(below);
  NDArray y = part > 0 && below + 1 < n ? between(low, entry(below + 1), part) : low;
  y = where(isnan(last, site), last, y, site);
  if (a.axis)
    return {a.keepdims ? y : y.squeeze(along, site)};
  return {y.reshape(shape, site)};
}

}  // namespace

NDArray bincount(const NDArray& x, std::int64_t bins, SourceLocation site) {
  return invoke_one(k_bincount, {x}, Attributes::of(BincountAttributes{bins}), site);
}

Histogram histogram(const NDArray& x, std::int64_t bins, double low, double high, SourceLocation site) {
  const Arrays made = invoke(k_histogram, std::span(&x, 1), Attributes::of(HistogramAttributes{bins, low, high}), site);
  return {made[0], made[1]};
}

NDArray quantile(const NDArray& x, double q, std::optional<int> axis, bool keepdims, SourceLocation site) {
  return invoke_one(k_quantile, {x}, Attributes::of(QuantileAttributes{q, axis, keepdims}), site);
}

NDArray median(const NDArray& x, std::optional<int> axis, bool keepdims, SourceLocation site) {
  return quantile(x, 0.5, axis, keepdims, site);
}

detail::OperatorList detail::count_operators() noexcept {
  static constexpr const Operator* list[] = {&k_bincount, &k_histogram, &k_quantile};
  return list;
}

}  // namespace sluice
