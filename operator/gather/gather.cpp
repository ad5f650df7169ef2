#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>

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

Specs infer_take(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
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

// indices, dy: dy's shape with the axes of the indices joined to one of the input's extent.
Specs infer_take_backward(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = axis_of(attributes);
  ArraySpec spec = inputs[1];
  for (int i = 0; i < inputs[0].shape.ndim(); ++i)
    spec.shape.erase(axis);
  spec.shape.insert(axis, of(attributes).extent);
  return {spec};
}

Specs infer_one_hot(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<OneHotAttributes>();
  ArraySpec spec = inputs[0];
  spec.shape.push_back(a.depth);
  spec.dtype = a.dtype;
  return {spec};
}

Specs infer_pick(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
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

Specs infer_pick_backward(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[1];
  spec.shape.insert(axis_of(attributes), of(attributes).extent);
  return {spec};
}

// -- Gradients: each is the other's ------------------------------------------------------------------------------

template <const Operator& Backward>
Arrays gradient_gather(const GradientCall& call) {
  return {invoke_one(Backward, {call.inputs[1], call.output_grads[0]}, call.attributes, {}), {}};
}

template <const Operator& Forward>
Arrays gradient_scatter(const GradientCall& call) {
  return {{}, invoke_one(Forward, {call.output_grads[0], call.inputs[0]}, call.attributes, {})};
}

void check_indices(const char* op, const NDArray& indices) {
  require<DTypeError>(is_integer(detail::object_of(indices, op).dtype), [&] {
    return message(op, ": indices are of an integer type, not ", indices.dtype());
  });
}

Attributes gather_attributes(const char* op, const NDArray& x, int axis, IndexMode mode) {
  const int normal = normal_axis(axis, detail::object_of(x, op).shape.ndim(), op);
  return Attributes::of(GatherAttributes{normal, static_cast<std::int64_t>(mode), x.shape()[normal]});
}

}  // namespace

detail::TakeLayout detail::take_layout(const Shape& taken, const Shape& indices, const GatherAttributes& attributes) {
  TakeLayout layout;
  layout.n = attributes.extent;
  layout.indices = indices.size();
  const int axis = static_cast<int>(attributes.axis), after = axis + indices.ndim();
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
    .infer = infer_take,
    .cpu = detail::take_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::take_gpu),
    .gradient = gradient_gather<k_take_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_take_backward = {
    .name = "take_backward",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .infer = infer_take_backward,
    .cpu = detail::take_backward_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::take_backward_gpu),
    .gradient = gradient_scatter<k_take>,
    .saved_inputs = 0b01,
};
constinit const Operator k_one_hot = {
    .name = "one_hot",
    .attributes = &attribute_type<OneHotAttributes>,
    .infer = infer_one_hot,
    .cpu = detail::one_hot_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::one_hot_gpu),
};
constinit const Operator k_pick = {
    .name = "pick",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .infer = infer_pick,
    .cpu = detail::pick_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::pick_gpu),
    .gradient = gradient_gather<k_pick_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_pick_backward = {
    .name = "pick_backward",
    .inputs = 2,
    .attributes = &attribute_type<GatherAttributes>,
    .infer = infer_pick_backward,
    .cpu = detail::pick_backward_cpu,
    .gpu = SLUICE_GPU_KERNEL(detail::pick_backward_gpu),
    .gradient = gradient_scatter<k_pick>,
    .saved_inputs = 0b01,
};

NDArray take(const NDArray& x, const NDArray& indices, int axis, IndexMode mode, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_indices("take", indices);
    return invoke_one(k_take, {x, indices}, gather_attributes("take", x, axis, mode), site);
  });
}

NDArray one_hot(const NDArray& indices, std::int64_t depth, DType dtype, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_indices("one_hot", indices);
    require<ValueError>(depth > 0, [&] { return message("one_hot: depth ", depth, " is not positive"); });
    return invoke_one(k_one_hot, {indices}, Attributes::of(OneHotAttributes{depth, dtype}), site);
  });
}

NDArray pick(const NDArray& x, const NDArray& index, int axis, IndexMode mode, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_indices("pick", index);
    return invoke_one(k_pick, {x, index}, gather_attributes("pick", x, axis, mode), site);
  });
}

detail::OperatorList detail::gather_operators() noexcept {
  static constexpr const Operator* list[] = {&k_take, &k_take_backward, &k_one_hot, &k_pick, &k_pick_backward};
  return list;
}

}  // namespace sluice
