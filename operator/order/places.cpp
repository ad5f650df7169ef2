#include <sluice/ndarray/create.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/places.h>
#include <sluice/operator/scan/calls.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/sink.h>

namespace sluice {

namespace {

using detail::PlacesAttributes;

Specs infer_take(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = detail::axis_of<PlacesAttributes>(attributes);
  detail::check_places(op, inputs[1], inputs[0].shape, axis);
  ArraySpec spec = inputs[1];
  spec.dtype = inputs[0].dtype;
  return {spec};
}

Specs infer_put(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = detail::axis_of<PlacesAttributes>(attributes);
  detail::check_places(op, inputs[0], inputs[2].shape, axis);
  require<ShapeError>(inputs[1].shape == inputs[0].shape, [&] {
    return message(op.name, ": a gradient of shape ", inputs[1].shape, " at places of shape ", inputs[0].shape);
  });
  ArraySpec spec = inputs[1];
  spec.shape = inputs[2].shape;
  return {spec};
}

// dy, added up where places stand side by side, and put where none does.
Arrays take_gradient(const GradientCall& call) {
  const auto& a = call.attributes.as<PlacesAttributes>();
  const NDArray &places = call.inputs[1], &dy = call.output_grads[0];
  if (a.runs)
    return {detail::add_runs(places, dy, static_cast<int>(a.axis)), {}};
  return {invoke_one(k_put_places, {places, dy, shape_only(call.input_specs[0])}, call.attributes, {}), {}};
}

Arrays put_gradient(const GradientCall& call) {
  return {{}, invoke_one(k_take_places, {call.output_grads[0], call.inputs[0]}, call.attributes, {}), {}};
}

// The truths come last.
Specs infer_true(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t count = attributes.as<detail::TruePlacesAttributes>().count;
  const ArraySpec& truths = inputs.back();
  require<DTypeError>(truths.dtype == bool_, [&] { return message(op.name, ": takes truths, not ", truths.dtype); });
  require<ShapeError>(truths.shape.ndim() == 1, [&] {
    return message(op.name, ": takes one row of truths, not shape ", truths.shape);
  });
  require<ValueError>(count >= 0 && count <= truths.shape[0], [&] {
    return message(op.name, ": ", count, " of ", truths.shape[0], " truths");
  });
  return {{{count}, int64, truths.device}};
}

Specs infer_entries(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs specs = infer_true(op, inputs, attributes);
  require<ShapeError>(inputs[0].shape == inputs[1].shape, [&] {
    return message(op.name, ": truths of shape ", inputs[1].shape, " beside a row of shape ", inputs[0].shape);
  });
  specs[0].dtype = inputs[0].dtype;
  return specs;
}

Arrays taken_true(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {take(inputs[0], invoke_one(k_true_places, {inputs[1]}, attributes, site), 0, IndexMode::raise, site)};
}

Arrays entries_gradient(const GradientCall& call) {
  const NDArray places = invoke_one(k_true_places, {call.inputs[1]}, call.attributes, {});
  const Attributes along = Attributes::of(PlacesAttributes{0, false});
  return {invoke_one(k_put_places, {places, call.output_grads[0], shape_only(call.input_specs[0])}, along, {}), {}};
}

Specs infer_begins(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  ArraySpec spec = inputs[0];
  require<ShapeError>(
      spec.shape.ndim() == 1, [&] { return message(op.name, ": takes one row, not shape ", spec.shape); });
  spec.dtype = bool_;
  return {spec};
}

Arrays begins_compared(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  const NDArray& sorted = inputs[0];
  const std::int64_t n = sorted.shape()[0];
  if (n == 0)
    return {sorted.astype(bool_, site)};
  const NDArray next = sorted.slice(0, 1, n, 1, site), before = sorted.slice(0, 0, n - 1, 1, site);
  NDArray differs = not_equal(next, before, site);
  if (is_floating(sorted.dtype()))
    differs = logical_and(differs, logical_not(isnan(before, site), site), site);  // behind a NaN there are NaNs
  return {concat({ones({1}, {.dtype = bool_, .device = sorted.device()}), differs}, 0, site)};
}

// Where there is no kernel: sums so far of truths say where each true one goes.
Arrays searched_true(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto end = static_cast<double>(attributes.as<detail::TruePlacesAttributes>().count + 1);
  const NDArray numbers = arange(1, end, 1, {.dtype = int64, .device = inputs[0].device()}, site);
  return {searchsorted(cumsum(inputs[0], 0, false, site), numbers, false, site)};
}

}  // namespace

void detail::check_places(const Operator& op, const ArraySpec& places, const Shape& x, int axis) {
  require<DTypeError>(is_integer(places.dtype), [&] {
    return message(op.name, ": places are of an integer type, not ", places.dtype);
  });
  const bool fits = places.shape.ndim() == x.ndim() && without_axis(places.shape, axis) == without_axis(x, axis);
  require<ShapeError>(fits, [&] {
    return message(op.name, ": places of shape ", places.shape, " along axis ", axis, " of shape ", x);
  });
}

constinit const Operator k_take_places = {
    .name = "take_places",
    .inputs = 2,
    .attributes = &attribute_type<PlacesAttributes>,
    .normalise = detail::normalise_axis<PlacesAttributes>,
    .infer = infer_take,
    .kernels = {on_cpu(detail::take_places_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::take_places_gpu))},
    .gradient = take_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_put_places = {
    .name = "put_places",
    .inputs = 3,
    .attributes = &attribute_type<PlacesAttributes>,
    .normalise = detail::normalise_axis<PlacesAttributes, 2>,
    .infer = infer_put,
    .kernels = {on_cpu(detail::put_places_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::put_places_gpu))},
    .gradient = put_gradient,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};
constinit const Operator k_true_places = {
    .name = "true_places",
    .attributes = &attribute_type<detail::TruePlacesAttributes>,
    .infer = infer_true,
    .kernels = {on_cpu(detail::true_places_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::true_places_gpu))},
    .composition = searched_true,
};

constinit const Operator k_true_entries = {
    .name = "true_entries",
    .inputs = 2,
    .attributes = &attribute_type<detail::TruePlacesAttributes>,
    .infer = infer_entries,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(detail::true_entries_gpu))},
    .composition = taken_true,
    .gradient = entries_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_run_begins = {
    .name = "run_begins",
    .attributes = &attribute_type<NoAttributes>,
    .infer = infer_begins,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(detail::run_begins_gpu))},
    .composition = begins_compared,
};

detail::OperatorList detail::place_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_take_places, &k_put_places, &k_true_places, &k_true_entries, &k_run_begins};
  return list;
}

}  // namespace sluice
