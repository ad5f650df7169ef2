#include <sluice/operator/detail/families.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/sink.h>

namespace sluice {

namespace {

using detail::GatherAttributes;
using detail::OneHotAttributes;

const GatherAttributes& of(const Attributes& attributes) {
  return attributes.as<GatherAttributes>();
}

int axis_of(const Attributes& attributes) {
  return static_cast<int>(of(attributes).axis);
}

// -- Shape rules ------------------------------------------------------------------------------------------------

void check_indices(const Operator& op, const ArraySpec& indices) {
  require<DTypeError>(is_integer(indices.dtype), [&] {
    return message(op.name, ": indices are of an integer type, not ", indices.dtype);
  });
}

Specs infer_take(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_indices(op, inputs[1]);
  const int axis = axis_of(attributes);
  ArraySpec spec = inputs[0];
  require<ValueError>(spec.shape[axis] > 0 || inputs[1].shape.size() == 0, [&] {
    return message("take: nothing to take from along axis ", axis, " of shape ", spec.shape);
  });
  spec.shape.erase(axis);
  for (int i = 0; i < inputs[1].shape.ndim(); ++i)
    spec.shape.insert(axis + i, inputs[1].shape[i]);
  return {spec};
}

// indices, dy, x: dy's type, with the axes of the indices joined to the one that they name entries of.
Specs infer_take_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_indices(op, inputs[0]);
  const int axis = axis_of(attributes);
  Shape taken = detail::without_axis(inputs[2].shape, axis);
  require<ShapeError>(inputs[1].shape.ndim() == taken.ndim() + inputs[0].shape.ndim(), [&] {
    return message(
        op.name,
        ": a gradient of shape ",
        inputs[1].shape,
        " is not that of entries of ",
        inputs[2].shape,
        " at indices of shape ",
        inputs[0].shape);
  });
  for (int i = 0; i < inputs[0].shape.ndim(); ++i)
    taken.insert(axis + i, inputs[0].shape[i]);
  require<ShapeError>(inputs[1].shape == taken, [&] {
    return message(op.name, ": a gradient of shape ", inputs[1].shape, ", entries of shape ", taken);
  });
  ArraySpec spec = inputs[1];
  spec.shape = inputs[2].shape;
  return {spec};
}

Specs infer_one_hot(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<OneHotAttributes>();
  check_indices(op, inputs[0]);
  require<ValueError>(a.depth > 0, [&] { return message("one_hot: depth ", a.depth, " is not positive"); });
  ArraySpec spec = inputs[0];
  spec.shape.push_back(a.depth);
  spec.dtype = a.dtype;
  return {spec};
}

Specs infer_pick(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_indices(op, inputs[1]);
  const int axis = axis_of(attributes);
  ArraySpec spec = inputs[0];
  spec.shape = detail::without_axis(spec.shape, axis);
  require<ShapeError>(inputs[1].shape == spec.shape, [&] {
    return message(
        "pick: an index of shape ", inputs[1].shape, " does not fit ", inputs[0].shape, " without axis ", axis);
  });
  require<ValueError>(inputs[0].shape[axis] > 0 || spec.shape.size() == 0, [&] {
    return message("pick: nothing to pick from along axis ", axis, " of shape ", inputs[0].shape);
  });
  return {spec};
}

Specs infer_pick_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_indices(op, inputs[0]);
  const Shape picked = detail::without_axis(inputs[2].shape, axis_of(attributes));
  require<ShapeError>(inputs[0].shape == picked && inputs[1].shape == picked, [&] {
    return message(
        op.name,
        ": a gradient of shape ",
        inputs[1].shape,
        " at an index of shape ",
        inputs[0].shape,
        " is not that of entries of ",
        inputs[2].shape);
  });
  ArraySpec spec = inputs[1];
  spec.shape = inputs[2].shape;
  return {spec};
}

// -- Gradients: each is the other's ------------------------------------------------------------------------------

template <const Operator& Backward>
Arrays gradient_gather(const GradientCall& call) {
  const NDArray x = shape_only(call.input_specs[0]);
  return {invoke_one(Backward, {call.inputs[1], call.output_grads[0], x}, call.attributes, {}), {}};
}

template <const Operator& Forward>
Arrays gradient_scatter(const GradientCall& call) {
  return {{}, invoke_one(Forward, {call.output_grads[0], call.inputs[0]}, call.attributes, {}), {}};
}

}  // namespace

detail::TakeLayout detail::take_layout(const Shape& taken, const Shape& indices, const GatherAxis& along) {
  TakeLayout layout;
  layout.n = along.extent;
  layout.indices = indices.size();
  const int axis = static_cast<int>(along.axis), after = axis + indices.ndim();
  for (int i = 0; i < axis; ++i)
    layout.outer *= taken[i];
  for (int i = after; i < taken.ndim(); ++i)
    layout.inner *= taken[i];
  return layout;
}

constinit const Operator k_take = {
    .name = "take",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes>,
    .infer = infer_take,
    .kernels = {on_cpu(detail::take_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::take_gpu))},
    .gradient = gradient_gather<k_take_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_take_backward = {
    .name = "take_backward",
    .inputs = 3,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes, 2>,
    .infer = infer_take_backward,
    .kernels = {on_cpu(detail::take_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::take_backward_gpu))},
    .gradient = gradient_scatter<k_take>,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};
constinit const Operator k_one_hot = {
    .name = "one_hot",
    .attributes = &attribute_type<OneHotAttributes>,
    .infer = infer_one_hot,
    .kernels = {on_cpu(detail::one_hot_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::one_hot_gpu))},
};
constinit const Operator k_pick = {
    .name = "pick",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes>,
    .infer = infer_pick,
    .kernels = {on_cpu(detail::pick_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::pick_gpu))},
    .gradient = gradient_gather<k_pick_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_pick_backward = {
    .name = "pick_backward",
    .inputs = 3,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes, 2>,
    .infer = infer_pick_backward,
    .kernels = {on_cpu(detail::pick_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::pick_backward_gpu))},
    .gradient = gradient_scatter<k_pick>,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};

NDArray take(const NDArray& x, const NDArray& indices, int axis, IndexMode mode, SourceLocation site) {
  const GatherAttributes attributes{axis, static_cast<std::int64_t>(mode)};
  return invoke_one(k_take, {x, indices}, Attributes::of(attributes), site);
}

NDArray one_hot(const NDArray& indices, std::int64_t depth, DType dtype, SourceLocation site) {
  return invoke_one(k_one_hot, {indices}, Attributes::of(OneHotAttributes{depth, dtype}), site);
}

NDArray pick(const NDArray& x, const NDArray& index, int axis, IndexMode mode, SourceLocation site) {
  const GatherAttributes attributes{axis, static_cast<std::int64_t>(mode)};
  return invoke_one(k_pick, {x, index}, Attributes::of(attributes), site);
}

detail::OperatorList detail::gather_operators() noexcept {
  static constexpr const Operator* list[] = {&k_take, &k_take_backward, &k_one_hot, &k_pick, &k_pick_backward};
  return list;
}

}  // namespace sluice
