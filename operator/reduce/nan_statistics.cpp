// Variances and places of extremes without NaNs, of other reductions.
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

using detail::MomentAttributes;
using detail::ReduceAttributes;

constexpr double k_infinity = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();

// -- nanvar, nanstd ---------------------------------------------------------------------------------------------------
Specs infer_moment(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Operator& op = detail::operator_of(Reduction::variance);
  return op.infer(op, inputs, attributes);
}

// In float32, or float64 beside it.
NDArray variance_of_numbers(const NDArray& x, const MomentAttributes& a, SourceLocation site) {
  const NDArray wide = widened(x), is_number = logical_not(isnan(x, site), site);
  const NDArray apart = subtract(wide, nanmean(wide, a.axes, true, site), site);
  const NDArray squares = square(where(is_number, apart, 0, site), site);
  const NDArray terms = subtract(count_nonzero(is_number, a.axes, a.keepdims, site), a.ddof, site);
  const NDArray divisor = where(greater(terms, 0, site), terms.astype(wide.dtype(), site), k_nan, site);
  return divide(sum(squares, a.axes, a.keepdims, site), divisor, site);
}

Arrays moment(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& x = inputs[0];
  return {variance_of_numbers(x, attributes.as<MomentAttributes>(), site).astype(x.dtype(), site)};
}

// The gradient of what is 0 is 0, as of standard_deviation().
Arrays deviation(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& x = inputs[0];
  const NDArray square_of = variance_of_numbers(x, attributes.as<MomentAttributes>(), site);
  return {where(equal(square_of, 0, site), 0, sqrt(one_for_zero(square_of), site), site).astype(x.dtype(), site)};
}

constexpr Operator moment_of(const char* name, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<MomentAttributes>;
  op.normalise = detail::normalise_axes<MomentAttributes, true>;
  op.infer = infer_moment;
  op.composition = composition;
  return op;
}

// -- nanargmax, nanargmin ---------------------------------------------------------------------------------------------
template <bool largest>
const Operator& plain() noexcept {
  return largest ? detail::k_argmax : detail::k_argmin;
}

template <bool largest>
Specs infer_place(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return plain<largest>().infer(op, inputs, attributes);
}

// NaNs count as what is never the best; where it is, the first number is taken.
template <bool largest>
Arrays place_among_numbers(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ReduceAttributes>();
  const NDArray x = inputs[0].detach();
  const auto place = [&](const Operator& op, const NDArray& of) { return invoke_one(op, {of}, attributes, site); };
  if (!is_floating(x.dtype()))
    return {place(plain<largest>(), x)};
  constexpr double worst = largest ? -k_infinity : k_infinity;
  const NDArray is_number = logical_not(isnan(x, site), site), kept = where(is_number, x, worst, site);
  const NDArray best = largest ? max(kept, a.axes, a.keepdims, site) : min(kept, a.axes, a.keepdims, site);
  const NDArray first = place(detail::k_argmax, is_number);
  const NDArray found = where(any(is_number, a.axes, a.keepdims, site), first, -1, site);
  return {where(equal(best, worst, site), found, place(plain<largest>(), kept), site)};
}

template <bool largest>
constexpr Operator place_of(const char* name) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<ReduceAttributes>;
  op.normalise = detail::normalise_axes<ReduceAttributes, false>;
  op.infer = infer_place<largest>;
  op.composition = place_among_numbers<largest>;
  return op;
}

template <class A>
NDArray compose(const Operator& op, const NDArray& x, A how, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(std::move(how)), site);
  });
}

}  // namespace

namespace detail {

constinit const Operator k_nanvar = moment_of("nanvar", moment);
constinit const Operator k_nanstd = moment_of("nanstd", deviation);
constinit const Operator k_nanargmax = place_of<true>("nanargmax");
constinit const Operator k_nanargmin = place_of<false>("nanargmin");

}  // namespace detail

NDArray nanvar(const NDArray& x, const Shape& axes, bool keepdims, std::int64_t ddof, SourceLocation site) {
  return compose(detail::k_nanvar, x, MomentAttributes{axes, keepdims, ddof}, site);
}

NDArray nanstd(const NDArray& x, const Shape& axes, bool keepdims, std::int64_t ddof, SourceLocation site) {
  return compose(detail::k_nanstd, x, MomentAttributes{axes, keepdims, ddof}, site);
}

NDArray nanargmax(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return compose(detail::k_nanargmax, x, ReduceAttributes{{axis}, keepdims}, site);
}

NDArray nanargmin(const NDArray& x, int axis, bool keepdims, SourceLocation site) {
  return compose(detail::k_nanargmin, x, ReduceAttributes{{axis}, keepdims}, site);
}

}  // namespace sluice
