#include <cmath>
#include <limits>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/bins.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/order.h>

namespace sluice {

namespace {

using detail::BincountAttributes;

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

// Between a and b in proportion, less than all of it and more than nothing; exact where they are alike, infinite ones
// too. Half of what lies between them fits where all of it does not.
NDArray between(const NDArray& a, const NDArray& b, double part) {
  const NDArray half = b * 0.5 - a * 0.5, made = part < 0.5 ? a + half * (2 * part) : b - half * (2 * (1 - part));
  return where(a == b, a, where(isfinite(half), made, a + b));
}

}  // namespace

NDArray bincount(const NDArray& x, std::int64_t bins, SourceLocation site) {
  return invoke_one(k_bincount, {x}, Attributes::of(BincountAttributes{bins}), site);
}

Histogram histogram(const NDArray& x, std::int64_t bins, double low, double high, SourceLocation site) {
  return detail::located(site, [&]() -> Histogram {
    detail::object_of(x, "histogram");
    require<ValueError>(bins > 0, [&] { return message("histogram: ", bins, " bins"); });
    require<ValueError>(std::isfinite(low) && std::isfinite(high) && low < high, [&] {
      return message("histogram: from ", low, " to ", high);
    });
    std::vector<double> at(static_cast<std::size_t>(bins) + 1, high);
    const auto count = static_cast<double>(bins);
    for (std::int64_t i = 0; i < bins; ++i) {
      const auto below = static_cast<double>(i);
      at[static_cast<std::size_t>(i)] = std::isfinite(high - low) ? low + below * ((high - low) / count)
                                                                  : low * (1 - below / count) + high * (below / count);
    }
    const NDArray edges = array<double>(at, {bins + 1}).to(x.device());
    // The last bin holds its upper edge too: what is not in it begins with the next number.
    constexpr double k_least = std::numeric_limits<double>::min(), k_infinity = std::numeric_limits<double>::infinity();
    at.back() = high == 0 ? k_least : std::nextafter(high, k_infinity);
    const NDArray ends = array<double>(at, {bins + 1}).to(x.device());
    const NDArray edges_below = searchsorted(ends, x.detach().astype(float64), true, site);
    return {bincount(edges_below, bins + 1, site).slice(0, 1, bins + 1, 1, site).copy(site), edges};
  });
}

NDArray quantile(const NDArray& x, double q, std::optional<int> axis, bool keepdims, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const int ndim = detail::object_of(x, "quantile").shape.ndim();
    require<ValueError>(q >= 0 && q <= 1, [&] { return message("quantile: q is ", q, ", not from 0 to 1"); });
    const int along = axis ? normal_axis(*axis, ndim, "quantile") : 0;
    const NDArray row = axis ? x : x.reshape({-1}, site);
    const std::int64_t n = row.shape()[along];
    require<ValueError>(n > 0, [&] { return message("quantile: no entries along axis ", along, " of ", x.shape()); });
    const NDArray sorted = sort(is_floating(x.dtype()) ? row : row.astype(float32), along, false, site);
    const auto entry = [&](std::int64_t i) { return sorted.slice(along, i, i + 1, 1, site); };
    const double place = q * static_cast<double>(n - 1);
    const auto below = std::min(static_cast<std::int64_t>(place), n - 1);
    const NDArray low = entry(below), last = entry(n - 1).detach();
    // The next entry has no part in what lies on one, for it may be infinite.
    const double part = place - static_cast<double>(below);
    NDArray y = part > 0 && below + 1 < n ? between(low, entry(below + 1), part) : low;
    y = where(isnan(last, site), last, y);
    Shape shape = row.shape();
    if (axis && keepdims)
      return y;
    if (axis)
      shape.erase(along);
    else
      shape = keepdims ? Shape(std::vector<std::int64_t>(static_cast<std::size_t>(ndim), 1)) : Shape{};
    return y.reshape(shape, site);
  });
}

NDArray median(const NDArray& x, std::optional<int> axis, bool keepdims, SourceLocation site) {
  return quantile(x, 0.5, axis, keepdims, site);
}

detail::OperatorList detail::count_operators() noexcept {
  static constexpr const Operator* list[] = {&k_bincount};
  return list;
}

}  // namespace sluice
