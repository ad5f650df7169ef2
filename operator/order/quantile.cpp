// Quantiles: entries of axes in order, and what lies between two of them.
#include <algorithm>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/families.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/quantile.h>
#include <sluice/operator/own_defaults.h>
#include <sluice/operator/reduce/calls.h>
#include <sluice/operator/reduce/normal_axes.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

using detail::ReduceAttributes;

/// One part of the way, or several, along a new first axis.
struct QuantileAttributes {
  double q = 0.5;
  std::vector<double> qs = {};
  Shape axes = {};
  bool keepdims = false;

  template <class V>
  void visit(V&& v) {
    v.field("q", q);
    v.field("qs", qs);
    v.field("axes", axes);
    v.field("keepdims", keepdims);
  }
};

QuantileAttributes half_in_percent() {
  QuantileAttributes a;
  a.q = 50;
  return a;
}

// -- Shapes -----------------------------------------------------------------------------------------------------------
Specs infer_reduced(const Operator& op, const ArraySpec& x, const Shape& axes, bool keepdims) {
  ArraySpec y = x;
  for (int i = axes.ndim(); i-- > 0;) {
    const int axis = static_cast<int>(axes[i]);
    require<ValueError>(
        x.shape[axis] > 0, [&] { return message(op.name, ": no entries along axis ", axis, " of ", x.shape); });
    if (keepdims)
      y.shape[axis] = 1;
    else
      y.shape.erase(axis);
  }
  return {y};
}

template <int whole>
Specs infer_quantile(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<QuantileAttributes>();
  const auto check = [&](double q) {
    require<ValueError>(
        q >= 0 && q <= whole, [&] { return message(op.name, ": q is ", q, ", not from 0 to ", whole); });
  };
  Specs specs = infer_reduced(op, inputs[0], a.axes, a.keepdims);
  if (a.qs.empty()) {
    check(a.q);
    return specs;
  }
  std::for_each(a.qs.begin(), a.qs.end(), check);
  specs[0].shape.insert(0, static_cast<std::int64_t>(a.qs.size()));
  return specs;
}

Specs infer_median(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<ReduceAttributes>();
  return infer_reduced(op, inputs[0], a.axes, a.keepdims);
}

// -- Entries in order -------------------------------------------------------------------------------------------------
/// The reduced axes as one, `along`, of n entries, in order.
struct Ordering {
  NDArray sorted;
  int along = 0;
  std::int64_t n = 0;
};

Ordering ordering_of(const NDArray& x, const Shape& axes, SourceLocation site) {
  const bool has_batch = axes.empty() || axes[0] != 0;  // the first axis stays, whatever its extent
  const bool none = detail::unseen_shape(x).size() == 0;
  const Shape shape = has_batch && !none ? detail::extents_beside_batch(x) : x.shape();
  Ordering made{x, static_cast<int>(axes.empty() ? 0 : axes[0]), 1};
  Shape order, flat;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      made.n *= shape[axis];
      continue;
    }
    order.push_back(axis);
    flat.push_back(shape[axis]);
  }
  if (axes.ndim() != 1) {
    for (const std::int64_t axis : axes)
      order.push_back(axis);
    made.along = flat.ndim();
    flat.push_back(made.n);
    made.sorted = (order.empty() ? x : x.transpose(order, site)).reshape(flat, site);
  }
  made.sorted = sort(made.sorted, made.along, false, site);
  return made;
}

// Between a and b in proportion, less than all of it and more than nothing, of halves of the distance; exact where they
// are alike, infinite ones too. Half of what lies between them fits where all of it does not.
NDArray between(const NDArray& a, const NDArray& b, const NDArray& made, const NDArray& half) {
  return where(isfinite(half), made, where(a == b, a, a + b));
}

// The middle is rounded once.
NDArray made_between(const NDArray& a, const NDArray& b, const NDArray& half, double part) {
  if (part == 0.5)
    return a * 0.5 + b * 0.5;
  return part < 0.5 ? a + half * (2 * part) : b - half * (2 * (1 - part));
}

NDArray at_part(const Ordering& o, double q, SourceLocation site) {
  const DType dtype = o.sorted.dtype();
  const auto entry = [&](std::int64_t i) {
    return o.sorted.slice(o.along, i, i + 1, 1, site).astype(detail::wide_type(dtype), site);
  };
  const double place = q * static_cast<double>(o.n - 1);
  const auto below = std::min(static_cast<std::int64_t>(place), o.n - 1);
  const NDArray a = entry(below), last = entry(o.n - 1).detach();
  // The next entry has no part in what lies on one, for it may be infinite.
  const double part = place - static_cast<double>(below);
  NDArray y = a;
  if (part > 0 && below + 1 < o.n) {
    const NDArray b = entry(below + 1), half = b * 0.5 - a * 0.5;
    y = between(a, b, made_between(a, b, half, part), half);
  }
  return where(isnan(last, site), last, y, site).astype(dtype, site);
}

// NaNs stand behind all others: a row ends in front of them.
NDArray at_part_of_numbers(const Ordering& o, double q, SourceLocation site) {
  const NDArray numbers = logical_not(isnan(o.sorted.detach(), site), site);
  const NDArray last = maximum(count_nonzero(numbers, {o.along}, true, site) - 1, 0, site);
  const NDArray place = last.astype(float64, site) * q, floor_of = floor(place, site);
  const NDArray below = minimum(floor_of.astype(int64, site), last, site), above = minimum(below + 1, last, site);
  const DType dtype = o.sorted.dtype();
  const auto entry = [&](const NDArray& at) {
    return take_along_axis(o.sorted, at, o.along, IndexMode::clip, site).astype(detail::wide_type(dtype), site);
  };
  const NDArray a = entry(below), b = entry(above), half = b * 0.5 - a * 0.5;
  const NDArray part = (place - floor_of).astype(a.dtype(), site);
  const NDArray beside = where(part < 0.5, a + half * (part * 2), b - half * ((1 - part) * 2), site);
  const NDArray made = where(part == 0.5, a * 0.5 + b * 0.5, beside, site);
  return where(part == 0, a, between(a, b, made, half), site).astype(dtype, site);
}

template <bool of_numbers>
NDArray reduced(const Ordering& o, double q, const Shape& axes, bool keepdims, SourceLocation site) {
  NDArray y = of_numbers ? at_part_of_numbers(o, q, site) : at_part(o, q, site);
  if (keepdims && axes.ndim() == 1)
    return y;
  y = y.squeeze(o.along, site);
  for (int i = 0; keepdims && i < axes.ndim(); ++i)
    y = y.expand_dims(static_cast<int>(axes[i]), site);
  return y;
}

// -- The operators ----------------------------------------------------------------------------------------------------
template <int whole, bool of_numbers>
Arrays quantiles(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);
template <bool of_numbers>
Arrays middle(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

template <int whole, bool of_numbers>
constexpr Operator quantile_of(const char* name, const AttributeType* type = &attribute_type<QuantileAttributes>) {
  Operator op{};
  op.name = name;
  op.attributes = type;
  op.normalise = detail::normalise_axes<QuantileAttributes, true>;
  op.infer = infer_quantile<whole>;
  op.composition = quantiles<whole, of_numbers>;
  return op;
}

template <bool of_numbers>
constexpr Operator median_of(const char* name) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<ReduceAttributes>;
  op.normalise = detail::normalise_axes<ReduceAttributes, true>;
  op.infer = infer_median;
  op.composition = middle<of_numbers>;
  return op;
}

}  // namespace

namespace detail {

constinit const Operator k_quantile = quantile_of<1, false>("quantile");
constinit const Operator k_percentile = quantile_of<100, false>("percentile", &attribute_type_from<half_in_percent>);
constinit const Operator k_nanquantile = quantile_of<1, true>("nanquantile");
constinit const Operator k_nanpercentile =
    quantile_of<100, true>("nanpercentile", &attribute_type_from<half_in_percent>);
constinit const Operator k_median = median_of<false>("median");
constinit const Operator k_nanmedian = median_of<true>("nanmedian");

}  // namespace detail

namespace {

template <int whole, bool of_numbers>
Arrays quantiles(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator& op = whole == 1   ? of_numbers ? detail::k_nanquantile : detail::k_quantile
                       : of_numbers ? detail::k_nanpercentile
                                    : detail::k_percentile;
  infer_quantile<whole>(op, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<QuantileAttributes>();
  const Ordering ordering = ordering_of(inputs[0], a.axes, site);
  const auto of = [&](double q) { return reduced<of_numbers>(ordering, q / whole, a.axes, a.keepdims, site); };
  if (a.qs.empty())
    return {of(a.q)};
  std::vector<NDArray> all;
  for (const double q : a.qs)
    all.push_back(of(q));
  return {stack(all, 0, site)};
}

template <bool of_numbers>
Arrays middle(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ReduceAttributes>();
  infer_median(of_numbers ? detail::k_nanmedian : detail::k_median, detail::specs_of(inputs), attributes);
  return {reduced<of_numbers>(ordering_of(inputs[0], a.axes, site), 0.5, a.axes, a.keepdims, site)};
}

NDArray call(const Operator& op, const NDArray& x, QuantileAttributes how, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(std::move(how)), site);
  });
}

NDArray call_median(const Operator& op, const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(ReduceAttributes{axes, keepdims}), site);
  });
}

// A list of no parts is not one part.
const std::vector<double>& checked(const char* op, const std::vector<double>& q) {
  require<ValueError>(!q.empty(), [&] { return message(op, ": no q is given"); });
  return q;
}

}  // namespace

#define SLUICE_QUANTILE(name)                                                                       \
  NDArray name(const NDArray& x, double q, const Shape& axes, bool keepdims, SourceLocation site) { \
    return call(detail::k_##name, x, {.q = q, .axes = axes, .keepdims = keepdims}, site);           \
  }
SLUICE_QUANTILE(quantile)
SLUICE_QUANTILE(percentile)
SLUICE_QUANTILE(nanquantile)
SLUICE_QUANTILE(nanpercentile)
#undef SLUICE_QUANTILE

NDArray quantile(
    const NDArray& x, const std::vector<double>& q, const Shape& axes, bool keepdims, SourceLocation site) {
  return detail::located(site, [&] {
    return call(detail::k_quantile, x, {.qs = checked("quantile", q), .axes = axes, .keepdims = keepdims}, site);
  });
}

NDArray percentile(
    const NDArray& x, const std::vector<double>& q, const Shape& axes, bool keepdims, SourceLocation site) {
  return detail::located(site, [&] {
    return call(
        detail::k_percentile, x, {.q = 50, .qs = checked("percentile", q), .axes = axes, .keepdims = keepdims}, site);
  });
}

NDArray median(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return call_median(detail::k_median, x, axes, keepdims, site);
}

NDArray nanmedian(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {
  return call_median(detail::k_nanmedian, x, axes, keepdims, site);
}

}  // namespace sluice
