// Scans that leave NaNs out: of what stands in their place.
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/scan/calls.h>
#include <sluice/operator/scan/kernels.h>
#include <sluice/operator/scan/scan.h>

namespace sluice {

namespace {

using detail::ScanAttributes;

// Integers and bool add up in int64.
Specs infer_total(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = inputs[0];
  if (!is_floating(spec.dtype) && spec.dtype != uint64)
    spec.dtype = int64;
  return {spec};
}

template <bool product>
Arrays total(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ScanAttributes>();
  const int axis = detail::axis_of<ScanAttributes>(attributes);
  const bool whole = !is_floating(inputs[0].dtype());
  const NDArray x = whole ? inputs[0] : where(isnan(inputs[0], site), product ? 1 : 0, inputs[0], site);
  return {product ? cumprod(x, axis, a.reverse, site) : cumsum(x, axis, a.reverse, site)};
}

constexpr Operator scan_of(const char* name, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type_from<detail::all_elements>;
  op.normalise = detail::normalise_axis_or_all<ScanAttributes>;
  op.infer = infer_total;
  op.composition = composition;
  return op;
}

NDArray call(const Operator& op, const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(ScanAttributes{axis, reverse}), site);
  });
}

}  // namespace

constinit const Operator detail::k_nancumsum = scan_of("nancumsum", total<false>);
constinit const Operator detail::k_nancumprod = scan_of("nancumprod", total<true>);

NDArray nancumsum(const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return call(detail::k_nancumsum, x, axis, reverse, site);
}

NDArray nancumprod(const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return call(detail::k_nancumprod, x, axis, reverse, site);
}

}  // namespace sluice
