// Scans along an axis, and their gradients, which are scans again.
#include <limits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/places.h>
#include <sluice/operator/scan/calls.h>
#include <sluice/operator/scan/kernels.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/walk/walk.h>

namespace sluice {

namespace {

using detail::ScanAttributes;

extern const Operator k_cumsum, k_cumprod, k_cummax, k_cummin, k_linear_recurrence, k_add_runs;

const ScanAttributes& of(const Attributes& attributes) {
  return attributes.as<ScanAttributes>();
}
Attributes along(std::optional<std::int64_t> axis, bool reverse) {
  return Attributes::of(ScanAttributes{axis, reverse});
}

// -- Shape rules and normal form ------------------------------------------------------------------------------------

Specs infer_total(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = inputs[0];
  if (!is_floating(spec.dtype) && spec.dtype != uint64)
    spec.dtype = int64;
  return {spec};
}

Specs infer_extreme(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec indices = inputs[0];
  indices.dtype = int64;
  return {inputs[0], indices};
}

void check_alike(const Operator& op, std::span<const ArraySpec> inputs) {
  require<ShapeError>(inputs[0].shape == inputs[1].shape, [&] {
    return message(op.name, ": shapes ", inputs[0].shape, " and ", inputs[1].shape, " differ");
  });
}

Specs infer_recurrence(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  check_alike(op, inputs);
  return {inputs[1]};
}

Specs infer_runs(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_alike(op, inputs);
  detail::check_places(op, inputs[0], inputs[1].shape, detail::axis_of<ScanAttributes>(attributes));
  require<DTypeError>(is_floating(inputs[1].dtype), [&] {
    return message(op.name, ": heads are of a floating type, not ", inputs[1].dtype);
  });
  return {inputs[1]};
}

bool normalise_recurrence(const RawCall& call, NormalCall& normal) {
  const DType promoted = promote(call.inputs[0].dtype(), call.inputs[1].dtype());
  const bool counted = detail::normalise_axis<ScanAttributes>(call, normal);
  NormalCall cast;
  if (!detail::cast_inputs(call, is_floating(promoted) ? promoted : float32, cast))
    return counted;
  normal.inputs = cast.inputs;
  if (!counted)
    normal.attributes = call.attributes;
  return true;
}

// -- Gradients ------------------------------------------------------------------------------------------------------
constexpr std::int64_t k_end = std::numeric_limits<std::int64_t>::max();

// Each entry is the one before it, in the direction of a scan; `first` is before all of them.
NDArray moved_on(const NDArray& x, int axis, bool reverse, double first) {
  const int back = x.ndim() - 1 - axis;
  std::vector<std::pair<std::int64_t, std::int64_t>> width(static_cast<std::size_t>(axis + 1 + back), {0, 0});
  width[static_cast<std::size_t>(axis)] =
      reverse ? std::pair<std::int64_t, std::int64_t>{0, 1} : std::pair<std::int64_t, std::int64_t>{1, 0};
  const NDArray rest = reverse ? x.slice(axis, 1, k_end) : x.slice(axis, 0, -1);
  return pad(rest, width, PadMode::constant, first);
}

Arrays cumsum_gradient(const GradientCall& call) {
  const auto& a = of(call.attributes);
  return {invoke_one(k_cumsum, {call.output_grads[0]}, along(a.axis, !a.reverse), {})};
}

// Entry i is in all products from its own on: dx[i] = (product before i) * s[i], where s[i], the sum of dy[j] times
// what stands between i and j, is dy[i] + x[i + 1] * s[i + 1].
Arrays cumprod_gradient(const GradientCall& call) {
  const auto& a = of(call.attributes);
  const NDArray &x = call.inputs[0], &y = call.outputs[0], &dy = call.output_grads[0];
  if (call.input_specs[0].shape.size() == 0)
    return {dy * x};
  const int axis = detail::axis_of<ScanAttributes>(call.attributes);
  const NDArray sums =
      invoke_one(k_linear_recurrence, {moved_on(x, axis, !a.reverse, 0), dy}, along(axis, !a.reverse), {});
  return {moved_on(y, axis, a.reverse, 1) * sums};
}

Arrays extreme_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  return {detail::add_runs(call.outputs[1], dy, detail::axis_of<ScanAttributes>(call.attributes))};
}

Arrays recurrence_gradient(const GradientCall& call) {
  const auto& a = of(call.attributes);
  const NDArray &factors = call.inputs[0], &y = call.outputs[0], &dy = call.output_grads[0];
  if (call.input_specs[0].shape.size() == 0)
    return {dy, dy};
  const int axis = detail::axis_of<ScanAttributes>(call.attributes);
  const NDArray db =
      invoke_one(k_linear_recurrence, {moved_on(factors, axis, !a.reverse, 0), dy}, along(axis, !a.reverse), {});
  NDArray da;
  if (call.wanted[0])
    da = db * moved_on(y, axis, a.reverse, 0);
  return {da, db};
}

Arrays runs_gradient(const GradientCall& call) {
  const detail::PlacesAttributes back{detail::axis_of<ScanAttributes>(call.attributes), true};
  return {{}, invoke_one(k_take_places, {call.output_grads[0], call.inputs[0]}, Attributes::of(back), {})};
}

// -- The operators --------------------------------------------------------------------------------------------------

constinit const Operator k_cumsum = {
    .name = "cumsum",
    .attributes = &attribute_type_from<detail::all_elements>,
    .normalise = detail::normalise_axis_or_all<ScanAttributes>,
    .infer = infer_total,
    .kernels = {on_cpu(detail::cumsum_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::cumsum_gpu))},
    .gradient = cumsum_gradient,
};
constinit const Operator k_cumprod = {
    .name = "cumprod",
    .attributes = &attribute_type_from<detail::all_elements>,
    .normalise = detail::normalise_axis_or_all<ScanAttributes>,
    .infer = infer_total,
    .kernels = {on_cpu(detail::cumprod_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::cumprod_gpu))},
    .gradient = cumprod_gradient,
    .saved_inputs = 0b1,
    .saved_outputs = 0b1,
};
constinit const Operator k_cummax = {
    .name = "cummax",
    .outputs = 2,
    .attributes = &attribute_type<ScanAttributes>,
    .normalise = detail::normalise_axis<ScanAttributes>,
    .infer = infer_extreme,
    .kernels = {on_cpu(detail::cummax_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::cummax_gpu))},
    .gradient = extreme_gradient,
    .saved_outputs = 0b10,
};
constinit const Operator k_cummin = {
    .name = "cummin",
    .outputs = 2,
    .attributes = &attribute_type<ScanAttributes>,
    .normalise = detail::normalise_axis<ScanAttributes>,
    .infer = infer_extreme,
    .kernels = {on_cpu(detail::cummin_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::cummin_gpu))},
    .gradient = extreme_gradient,
    .saved_outputs = 0b10,
};
constinit const Operator k_linear_recurrence = {
    .name = "linear_recurrence",
    .inputs = 2,
    .attributes = &attribute_type<ScanAttributes>,
    .normalise = normalise_recurrence,
    .infer = infer_recurrence,
    .kernels = {on_cpu(detail::linear_recurrence_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::linear_recurrence_gpu))},
    .gradient = recurrence_gradient,
    .saved_inputs = 0b01,
    .saved_outputs = 0b1,
};
constinit const Operator k_add_runs = {
    .name = "add_runs",
    .inputs = 2,
    .attributes = &attribute_type<ScanAttributes>,
    .normalise = detail::normalise_axis<ScanAttributes>,
    .infer = infer_runs,
    .kernels = {on_cpu(detail::add_runs_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::add_runs_gpu))},
    .gradient = runs_gradient,
    .saved_inputs = 0b01,
};

NDArray total(const Operator& op, const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return invoke_one(op, {x}, along(axis, reverse), site);
}

Extremes extremes(const Operator& op, const NDArray& x, int axis, SourceLocation site) {
  const Arrays made = invoke(op, std::span(&x, 1), along(axis, false), site);
  return {made[0], made[1]};
}

}  // namespace

NDArray detail::add_runs(const NDArray& places, const NDArray& dy, int axis) {
  return invoke_one(k_add_runs, {places, dy}, along(axis, false), {});
}

NDArray cumsum(const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return total(k_cumsum, x, axis, reverse, site);
}
NDArray cumprod(const NDArray& x, std::optional<int> axis, bool reverse, SourceLocation site) {
  return total(k_cumprod, x, axis, reverse, site);
}
Extremes cummax(const NDArray& x, int axis, SourceLocation site) {
  return extremes(k_cummax, x, axis, site);
}
Extremes cummin(const NDArray& x, int axis, SourceLocation site) {
  return extremes(k_cummin, x, axis, site);
}
NDArray linear_recurrence(const NDArray& a, const NDArray& b, int axis, bool reverse, SourceLocation site) {
  return invoke_one(k_linear_recurrence, {a, b}, along(axis, reverse), site);
}

detail::OperatorList detail::scan_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_cumsum, &k_cumprod, &k_cummax, &k_cummin, &k_linear_recurrence, &k_add_runs};
  return list;
}

}  // namespace sluice
