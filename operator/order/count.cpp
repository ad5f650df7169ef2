#include <cmath>
#include <limits>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/bins.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/families.h>

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

}  // namespace

NDArray bincount(const NDArray& x, std::int64_t bins, SourceLocation site) {
  return invoke_one(k_bincount, {x}, Attributes::of(BincountAttributes{bins}), site);
}

Histogram histogram(const NDArray& x, std::int64_t bins, double low, double high, SourceLocation site) {
  const Arrays made = invoke(k_histogram, std::span(&x, 1), Attributes::of(HistogramAttributes{bins, low, high}), site);
  return {made[0], made[1]};
}

detail::OperatorList detail::count_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_bincount, &k_histogram, &k_quantile, &k_percentile, &k_median, &k_nanquantile, &k_nanpercentile, &k_nanmedian};
  return list;
}

}  // namespace sluice
