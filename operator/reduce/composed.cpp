#include <cmath>
#include <limits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/calls.h>
#include <sluice/operator/reduce/composed.h>
#include <sluice/operator/reduce/families.h>
#include <sluice/operator/reduce/gradient.h>
#include <sluice/operator/reduce/normal_axes.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

using detail::ReduceAttributes;

constexpr double k_infinity = std::numeric_limits<double>::infinity();

/// Of the order too.
struct NormAttributes {
  double order = 2;
  Shape axes = {};
  bool keepdims = false;

  template <class V>
  void visit(V&& v) {
    v.field("order", order);
    v.field("axes", axes);
    v.field("keepdims", keepdims);
  }
};

// -- Shapes -----------------------------------------------------------------------------------------------------------
// What a reduction without NaNs gives is what the one that it is made of gives.
template <Reduction row>
Specs infer_as(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Operator& op = detail::operator_of(row);
  return op.infer(op, inputs, attributes);
}

Specs infer_norm(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<NormAttributes>();
  const Operator& op = detail::operator_of(Reduction::l2_norm);
  return op.infer(op, inputs, Attributes::of(ReduceAttributes{a.axes, a.keepdims}));
}

// -- Without NaNs -----------------------------------------------------------------------------------------------------
NDArray without_nan(const NDArray& x, double instead, SourceLocation site) {
  return is_floating(x.dtype()) ? where(isnan(x, site), instead, x, site) : x;
}

Arrays product_of_numbers(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ReduceAttributes>();
  return {prod(without_nan(inputs[0], 1, site), a.axes, a.keepdims, site)};
}

// The mean with zeros in place of NaNs, by the share of the others: sums need not fit the type.
Arrays mean_of_numbers(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ReduceAttributes>();
  const NDArray& x = inputs[0];
  if (!is_floating(x.dtype()))
    return {mean(x, a.axes, a.keepdims, site)};
  const NDArray is_number = logical_not(isnan(x, site), site).astype(detail::wide_type(x.dtype()), site);
  const NDArray share = mean(is_number, a.axes, a.keepdims, site);
  const NDArray of_all = mean(widened(without_nan(x, 0, site)), a.axes, a.keepdims, site);
  return {divide(of_all, share, site).astype(x.dtype(), site)};
}

NDArray extreme_of_numbers(const NDArray& x, bool largest, const ReduceAttributes& a, SourceLocation site) {
  const NDArray numbers = without_nan(x, largest ? -k_infinity : k_infinity, site);
  const NDArray y = largest ? max(numbers, a.axes, a.keepdims, site) : min(numbers, a.axes, a.keepdims, site);
  if (!is_floating(x.dtype()))
    return y;
  return where(all(isnan(x, site), a.axes, a.keepdims, site), std::numeric_limits<double>::quiet_NaN(), y, site);
}

template <bool largest>
Arrays extreme(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {extreme_of_numbers(inputs[0], largest, attributes.as<ReduceAttributes>(), site)};
}

template <Reduction row>
constexpr Operator without_nans(const char* name, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<ReduceAttributes>;
  op.normalise = detail::normalise_axes<ReduceAttributes, false>;
  op.infer = infer_as<row>;
  op.composition = composition;
  return op;
}

// -- Norms ------------------------------------------------------------------------------------------------------------
// Magnitudes relative to the largest one, which stands for a constant: what depends on it cancels.
NDArray norm_of_powers(const NDArray& x, const NormAttributes& a, SourceLocation site) {
  const NDArray magnitudes = abs(x, site), largest = max_norm(x.detach(), a.axes, true, site);
  const NDArray scale = where(logical_and(largest > 0, isfinite(largest)), largest, 1, site);
  // A power of 0 has no gradient, whatever the order.
  const NDArray powers = where(magnitudes == 0, 0, power(one_for_zero(magnitudes) / scale, a.order, site), site);
  const NDArray total = sum(powers, a.axes, true, site);
  const NDArray y = where(total == 0, 0, power(one_for_zero(total), 1 / a.order, site) * scale, site);
  return a.keepdims ? y : sum(y, a.axes, false, site);
}

// Sums of reciprocals: one 0 and the norm is 0. Magnitudes relative to the smallest one, as above: times `root` twice,
// the largest reciprocal of a root, which always fits, and of nothing at all is 0.
NDArray norm_of_reciprocals(const NDArray& x, const NormAttributes& a, SourceLocation site) {
  const NDArray magnitudes = abs(x, site), root = max_norm(rsqrt(magnitudes.detach(), site), a.axes, true, site);
  const NDArray scale = where(logical_and(root > 0, isfinite(root)), root, 1, site);
  const NDArray relative = one_for_zero(magnitudes) * scale * scale;
  const NDArray total = sum(power(relative, a.order, site), a.axes, true, site);
  const NDArray y = where(isinf(root), 0, power(total, 1 / a.order, site) / scale / scale, site);
  return a.keepdims ? y : sum(y, a.axes, false, site);
}

NDArray norm_of_reals(const NDArray& x, const NormAttributes& a, SourceLocation site) {
  if (a.order == 1)
    return l1_norm(x, a.axes, a.keepdims, site);
  if (a.order == 2)
    return l2_norm(x, a.axes, a.keepdims, site);
  if (a.order == k_infinity)
    return max_norm(x, a.axes, a.keepdims, site);
  if (a.order == -k_infinity)
    return min(abs(x, site), a.axes, a.keepdims, site);
  if (a.order == 0)
    return count_nonzero(x, a.axes, a.keepdims, site).astype(x.dtype(), site);
  const NDArray wide = widened(x);
  const NDArray y = a.order > 0 ? norm_of_powers(wide, a, site) : norm_of_reciprocals(wide, a, site);
  return y.astype(x.dtype(), site);
}

Arrays any_norm(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<NormAttributes>();
  require<ValueError>(!std::isnan(a.order), [] { return "norm: the order is NaN"; });
  return {norm_of_reals(inputs[0], a, site)};
}

NDArray compose(const Operator& op, const NDArray& x, Attributes attributes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, std::move(attributes), site);
  });
}

}  // namespace

namespace detail {

constinit const Operator k_nanprod = without_nans<Reduction::prod>("nanprod", product_of_numbers);
constinit const Operator k_nanmean = without_nans<Reduction::mean>("nanmean", mean_of_numbers);
constinit const Operator k_nanmax = without_nans<Reduction::max>("nanmax", extreme<true>);
constinit const Operator k_nanmin = without_nans<Reduction::min>("nanmin", extreme<false>);
constinit const Operator k_norm{
    .name = "norm",
    .attributes = &attribute_type<NormAttributes>,
    .normalise = normalise_axes<NormAttributes, true>,
    .infer = infer_norm,
    .composition = any_norm,
};

}  // namespace detail

#define SLUICE_REDUCES(name)                                                                             \
  NDArray name(const NDArray& x, const Shape& axes, bool keepdims, SourceLocation site) {                \
    return compose(detail::k_##name, x, Attributes::of(detail::ReduceAttributes{axes, keepdims}), site); \
  }
SLUICE_REDUCES(nanprod)
SLUICE_REDUCES(nanmean)
SLUICE_REDUCES(nanmax)
SLUICE_REDUCES(nanmin)
#undef SLUICE_REDUCES

NDArray norm(const NDArray& x, double order, const Shape& axes, bool keepdims, SourceLocation site) {
  return compose(detail::k_norm, x, Attributes::of(NormAttributes{order, axes, keepdims}), site);
}

}  // namespace sluice
