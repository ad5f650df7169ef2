#include <algorithm>
#include <limits>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/scan/calls.h>
#include <sluice/operator/scan/scan.h>

namespace sluice {

namespace {

struct DiffAttributes {
  std::int64_t axis = -1;
  std::int64_t n = 1;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("n", n);
  }
};

Specs infer_diff(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<DiffAttributes>();
  require<ValueError>(a.n >= 0, [&] { return message("diff: n is ", a.n, ", which is negative"); });
  ArraySpec spec = inputs[0];
  std::int64_t& extent = spec.shape[static_cast<int>(a.axis)];
  extent -= std::min(extent, a.n);
  return {spec};
}

Arrays compose_diff(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const auto& a = attributes.as<DiffAttributes>();
  const int axis = static_cast<int>(a.axis);
  NDArray y = inputs[0];
  require<ValueError>(a.n >= 0, [&] { return message("diff: n is ", a.n, ", which is negative"); });
  if (a.n == 0)
    return {y.copy(site)};
  const bool truths = y.dtype() == bool_;
  // The extent may be that of a batch: one difference does without it.
  const std::int64_t times = a.n == 1 ? 1 : std::min(a.n, std::max<std::int64_t>(1, y.shape()[axis]));
  for (std::int64_t left = times; left > 0; --left) {
    const NDArray next = y.slice(axis, 1, end, 1, site), before = y.slice(axis, 0, -1, 1, site);
    y = truths ? not_equal(next, before, site) : subtract(next, before, site);
  }
  return {y};
}

constinit const Operator k_diff = {
    .name = "diff",
    .attributes = &attribute_type<DiffAttributes>,
    .normalise = detail::normalise_axis<DiffAttributes>,
    .infer = infer_diff,
    .composition = compose_diff,
};

}  // namespace

NDArray diff(const NDArray& x, std::int64_t n, int axis, SourceLocation site) {
  return invoke_one(k_diff, {x}, Attributes::of(DiffAttributes{axis, n}), site);
}

detail::OperatorList detail::diff_operators() noexcept {
  static constexpr const Operator* list[] = {&k_diff, &k_nancumsum, &k_nancumprod};
  return list;
}

}  // namespace sluice
