#include <sluice/operator/detail/families.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using detail::check_indices;
using detail::checked_axis;
using detail::GatherAttributes;
using detail::IndexKind;
using detail::OneHotAttributes;

// -- Shape rules ------------------------------------------------------------------------------------------------

Specs infer_one_hot(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<OneHotAttributes>();
  check_indices(op.name, inputs[0]);
  require<ValueError>(a.depth > 0, [&] { return message("one_hot: depth ", a.depth, " is not positive"); });
  ArraySpec spec = inputs[0];
  spec.shape.push_back(a.depth);
  spec.dtype = a.dtype;
  return {spec};
}

Specs infer_pick(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_indices(op.name, inputs[1]);
  const int axis = checked_axis(op, attributes);
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
  check_indices(op.name, inputs[0]);
  const Shape picked = detail::without_axis(inputs[2].shape, checked_axis(op, attributes));
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

}  // namespace

constinit const Operator k_take = {
    .name = "take",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes>,
    .infer = detail::infer_taken<IndexKind::axis>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_cpu, IndexKind::axis>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_gpu, IndexKind::axis>)))},
    .gradient = detail::gather_gradient<k_take_backward>,
    .saved_inputs = 0b10,
    .strided_inputs = 0b01,
};
constinit const Operator k_take_backward = {
    .name = "take_backward",
    .inputs = 3,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = detail::normalise_axis<GatherAttributes, 2>,
    .infer = detail::infer_taken_backward<IndexKind::axis>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_backward_cpu, IndexKind::axis>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_backward_gpu, IndexKind::axis>)))},
    .gradient = detail::scatter_gradient<k_take>,
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
    .attributes = &attribute_type_from<detail::along_last_axis>,
    .normalise = detail::normalise_axis<GatherAttributes>,
    .infer = infer_pick,
    .kernels =
        {on_cpu(detail::pick_as_told<detail::pick_cpu>),
         on_gpu(SLUICE_GPU_KERNEL(detail::pick_as_told<detail::pick_gpu>))},
    .gradient = detail::gather_gradient<k_pick_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_pick_backward = {
    .name = "pick_backward",
    .inputs = 3,
    .attributes = &attribute_type_from<detail::along_last_axis>,
    .normalise = detail::normalise_axis<GatherAttributes, 2>,
    .infer = infer_pick_backward,
    .kernels =
        {on_cpu(detail::pick_as_told<detail::pick_backward_cpu>),
         on_gpu(SLUICE_GPU_KERNEL(detail::pick_as_told<detail::pick_backward_gpu>))},
    .gradient = detail::scatter_gradient<k_pick>,
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
