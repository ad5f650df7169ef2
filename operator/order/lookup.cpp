#include <limits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/lookup.h>
#include <sluice/operator/order/order.h>

namespace sluice {

namespace {

// -- isin -------------------------------------------------------------------------------------------------------------
struct IsinAttributes {
  bool invert = false;

  template <class V>
  void visit(V&& v) {
    v.field("invert", invert);
  }
};

Specs infer_isin(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = inputs[0];
  spec.dtype = bool_;
  return {spec};
}

// Equal values would stand between the two places; of none there is no room. A NaN would stand among NaNs.
Arrays among(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& x = inputs[0];
  const NDArray sorted = sort(inputs[1].reshape({-1}, site), 0, false, site);
  const NDArray before = searchsorted(sorted, x, false, site), behind = searchsorted(sorted, x, true, site);
  NDArray found = less(before, behind, site);
  if (is_floating(x.dtype()))
    found = logical_and(found, logical_not(isnan(x, site), site), site);
  return {attributes.as<IsinAttributes>().invert ? logical_not(found, site) : found};
}

constinit const Operator k_isin{
    .name = "isin",
    .inputs = 2,
    .attributes = &attribute_type<IsinAttributes>,
    .normalise = detail::promote_inputs,
    .infer = infer_isin,
    .composition = among,
};

// -- digitize ---------------------------------------------------------------------------------------------------------
struct DigitizeAttributes {
  bool right = false;

  template <class V>
  void visit(V&& v) {
    v.field("right", right);
  }
};

Specs infer_digitize(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<ShapeError>(inputs[1].shape.ndim() == 1, [&] {
    return message(op.name, ": edges must be of shape (n,), not ", inputs[1].shape);
  });
  ArraySpec y = inputs[0];
  y.dtype = int64;
  return {y};
}

Arrays bins_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_digitize{
    .name = "digitize",
    .inputs = 2,
    .attributes = &attribute_type<DigitizeAttributes>,
    .normalise = detail::promote_inputs,
    .infer = infer_digitize,
    .composition = bins_of,
};

Arrays bins_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_digitize(k_digitize, detail::specs_of(inputs), attributes);
  return {searchsorted(inputs[1], inputs[0], !attributes.as<DigitizeAttributes>().right, site)};
}

// -- interp -----------------------------------------------------------------------------------------------------------
struct InterpAttributes : InterpOptions {
  template <class V>
  void visit(V&& v) {
    v.field("left", left);
    v.field("right", right);
  }
};

Specs infer_interp(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &x = inputs[0], &xp = inputs[1], &fp = inputs[2];
  require<ShapeError>(xp.shape.ndim() == 1 && xp.shape == fp.shape, [&] {
    return message(op.name, ": xp and fp must be of one shape (n,), not of ", xp.shape, " and ", fp.shape);
  });
  require<ValueError>(xp.shape[0] > 0, [&] { return message(op.name, ": xp and fp have no entries"); });
  const DType both = promote(promote(x.dtype, xp.dtype), fp.dtype);
  return {{x.shape, detail::operand_type(RowKind::real, both), x.device}};
}

Arrays interpolated(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

constinit const Operator k_interp{
    .name = "interp",
    .inputs = 3,
    .attributes = &attribute_type<InterpAttributes>,
    .infer = infer_interp,
    .composition = interpolated,
};

// The height between two places, the same twice in front of them all and behind.
NDArray between(const NDArray& x, const NDArray& xp, const NDArray& fp, SourceLocation site) {
  const NDArray behind = searchsorted(xp.detach(), x.detach(), true, site), before = subtract(behind, 1, site);
  const auto at = [&](const NDArray& row, const NDArray& place) { return take(row, place, 0, IndexMode::clip, site); };
  const NDArray low = at(xp, before), width = subtract(at(xp, behind), low, site);
  const NDArray from = at(fp, before), to = at(fp, behind), rise = subtract(to, from, site);
  const NDArray none = equal(width, 0, site);
  const NDArray part = where(none, 0, divide(subtract(x, low, site), where(none, 1, width, site), site), site);
  // At a place its own number, whatever stands beside it; two infinities are one.
  const NDArray level = logical_or(equal(part, 0, site), equal(from, to, site), site);
  const NDArray odd = logical_and(level, logical_not(isfinite(rise, site), site), site);
  return add(from, multiply(where(odd, 0, rise, site), part, site), site);
}

Arrays interpolated(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const DType own = infer_interp(k_interp, detail::specs_of(inputs), attributes)[0].dtype;
  const auto& a = attributes.as<InterpAttributes>();
  const auto wide = [&](const NDArray& input) { return input.astype(detail::wide_type(own), site); };
  const NDArray x = wide(inputs[0]), xp = wide(inputs[1]);
  NDArray y = between(x, xp, wide(inputs[2]), site);
  // The ends as numbers without axes: x may be one too.
  if (a.left)
    y = where(less(x, xp.slice(0, 0, 1, 1, site).squeeze(0, site), site), *a.left, y, site);
  if (a.right)
    y = where(greater(x, xp.slice(0, -1, end, 1, site).squeeze(0, site), site), *a.right, y, site);
  y = where(isnan(x, site), std::numeric_limits<double>::quiet_NaN(), y, site);
  return {y.astype(own, site)};
}

}  // namespace

detail::OperatorList detail::lookup_operators() noexcept {
  static constexpr const Operator* list[] = {&k_isin, &k_digitize, &k_interp};
  return list;
}

NDArray digitize(const NDArray& x, const NDArray& edges, bool right, SourceLocation site) {
  return invoke_one(k_digitize, {x, edges}, Attributes::of(DigitizeAttributes{right}), site);
}

NDArray isin(const NDArray& x, const NDArray& values, bool invert, SourceLocation site) {
  return invoke_one(k_isin, {x, values}, Attributes::of(IsinAttributes{invert}), site);
}

NDArray interp(
    const NDArray& x, const NDArray& xp, const NDArray& fp, const InterpOptions& options, SourceLocation site) {
  return invoke_one(k_interp, {x, xp, fp}, Attributes::of(InterpAttributes{options}), site);
}

NDArray argwhere(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "argwhere");
    return nonzero(x, site);
  });
}

NDArray flatnonzero(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "flatnonzero");
    return nonzero(x.reshape({-1}, site), site).reshape({-1}, site);
  });
}

}  // namespace sluice
