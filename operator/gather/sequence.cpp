#include <cstring>
#include <type_traits>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/gather/sequence.h>
#include <sluice/operator/gather/sequence_walk.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/sink.h>

namespace sluice {

namespace {

using detail::axis_of;
using detail::SequenceAttributes;
using detail::SequenceKind;
using detail::SequenceMaskAttributes;

extern const Operator k_sequence_mask, k_sequence_last, k_sequence_last_backward, k_sequence_reverse;

// -- Shape rules ----------------------------------------------------------------------------------------------------
void check_sequences(const Operator& op, const Shape& x, const ArraySpec& lengths, int axis) {
  require<DTypeError>(is_integer(lengths.dtype), [&] {
    return message(op.name, ": lengths are of an integer type, not ", lengths.dtype);
  });
  require<ShapeError>(
      x.ndim() >= 2, [&] { return message(op.name, ": an array of shape ", x, " has no axes for steps and batch"); });
  require<IndexError>(axis <= 1, [&] { return message(op.name, ": steps stand along axis 0 or 1, not ", axis); });
  require<ShapeError>(lengths.shape == Shape{x[1 - axis]}, [&] {
    return message(op.name, ": lengths of shape ", lengths.shape, " for ", x[1 - axis], " sequences of shape ", x);
  });
}

template <class A>
Specs infer_sequences(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_sequences(op, inputs[0].shape, inputs[1], axis_of<A>(attributes));
  if constexpr (std::is_same_v<A, SequenceMaskAttributes>)
    detail::check_fits(op.name, attributes.as<A>().value, inputs[0].dtype);
  return {inputs[0]};
}

Specs infer_last(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = axis_of<SequenceAttributes>(attributes);
  check_sequences(op, inputs[0].shape, inputs[1], axis);
  ArraySpec spec = inputs[0];
  spec.shape.erase(axis);
  return {spec};
}

// dy, lengths, x (shape alone)
Specs infer_last_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = axis_of<SequenceAttributes>(attributes);
  check_sequences(op, inputs[2].shape, inputs[1], axis);
  ArraySpec spec = inputs[0];
  spec.shape = inputs[2].shape;
  Shape last = spec.shape;
  last.erase(axis);
  require<ShapeError>(inputs[0].shape == last, [&] {
    return message(op.name, ": a gradient of shape ", inputs[0].shape, " for steps of shape ", last);
  });
  return {spec};
}

// -- Kernels --------------------------------------------------------------------------------------------------------
using Run = void (*)(const KernelCall& call, const TensorView& x, const detail::SequenceRun& run);

template <Run run, SequenceKind kind>
void sequence_kernel(const KernelCall& call) {
  constexpr bool masks = kind == SequenceKind::mask;
  using Given = std::conditional_t<masks, SequenceMaskAttributes, SequenceAttributes>;
  const TensorView &x = call.inputs[0], &lengths = call.inputs[1];
  const Shape& whole = kind == SequenceKind::spread ? call.outputs[0].shape : x.shape;
  const int axis = axis_of<Given>(call.attributes);
  detail::SequenceRun what{{lengths.data, lengths.dtype, kind, axis == 0, whole[axis], whole[1 - axis]}, 1};
  for (int i = 2; i < whole.ndim(); ++i)
    what.inner *= whole[i];
  if constexpr (masks) {
    const Scalar value = call.attributes.as<SequenceMaskAttributes>().value;
    by_any_dtype(x.dtype, [&]<class T>() {
      const T element = value.kind() == Scalar::Kind::real ? detail::convert<T>(value.as_double())
                                                           : detail::convert<T>(value.as_int64());
      std::memcpy(&what.fill, &element, sizeof element);
    });
  }
  run(call, x, what);
}

// -- Gradients ------------------------------------------------------------------------------------------------------
Arrays mask_gradient(const GradientCall& call) {
  SequenceMaskAttributes zero = call.attributes.as<SequenceMaskAttributes>();
  zero.value = 0;
  return {invoke_one(k_sequence_mask, {call.output_grads[0], call.inputs[1]}, Attributes::of(zero), {}), {}};
}
Arrays reverse_gradient(const GradientCall& call) {
  return {invoke_one(k_sequence_reverse, {call.output_grads[0], call.inputs[1]}, call.attributes, {}), {}};
}
Arrays last_gradient(const GradientCall& call) {
  const NDArray x = shape_only(call.input_specs[0]);
  return {invoke_one(k_sequence_last_backward, {call.output_grads[0], call.inputs[1], x}, call.attributes, {}), {}};
}
Arrays last_backward_gradient(const GradientCall& call) {
  return {invoke_one(k_sequence_last, {call.output_grads[0], call.inputs[1]}, call.attributes, {}), {}, {}};
}

#define SLUICE_SEQUENCE_KERNELS(kind)                                                          \
  {                                                                                            \
    on_cpu(sequence_kernel<detail::sequence_cpu, SequenceKind::kind>),                         \
        on_gpu(SLUICE_GPU_KERNEL((sequence_kernel<detail::sequence_gpu, SequenceKind::kind>))) \
  }

constinit const Operator k_sequence_mask = {
    .name = "sequence_mask",
    .inputs = 2,
    .attributes = &attribute_type<SequenceMaskAttributes>,
    .normalise = detail::normalise_axis<SequenceMaskAttributes>,
    .infer = infer_sequences<SequenceMaskAttributes>,
    .kernels = SLUICE_SEQUENCE_KERNELS(mask),
    .gradient = mask_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_sequence_reverse = {
    .name = "sequence_reverse",
    .inputs = 2,
    .attributes = &attribute_type<SequenceAttributes>,
    .normalise = detail::normalise_axis<SequenceAttributes>,
    .infer = infer_sequences<SequenceAttributes>,
    .kernels = SLUICE_SEQUENCE_KERNELS(reverse),
    .gradient = reverse_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_sequence_last = {
    .name = "sequence_last",
    .inputs = 2,
    .attributes = &attribute_type<SequenceAttributes>,
    .normalise = detail::normalise_axis<SequenceAttributes>,
    .infer = infer_last,
    .kernels = SLUICE_SEQUENCE_KERNELS(last),
    .gradient = last_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_sequence_last_backward = {
    .name = "sequence_last_backward",
    .inputs = 3,
    .attributes = &attribute_type<SequenceAttributes>,
    .normalise = detail::normalise_axis<SequenceAttributes, 2>,
    .infer = infer_last_backward,
    .kernels = SLUICE_SEQUENCE_KERNELS(spread),
    .gradient = last_backward_gradient,
    .saved_inputs = 0b010,
    .shape_inputs = 0b100,
};
#undef SLUICE_SEQUENCE_KERNELS

}  // namespace

NDArray sequence_mask(const NDArray& x, const NDArray& lengths, Scalar value, int axis, SourceLocation site) {
  return invoke_one(k_sequence_mask, {x, lengths}, Attributes::of(SequenceMaskAttributes{{axis}, value}), site);
}

NDArray sequence_last(const NDArray& x, const NDArray& lengths, int axis, SourceLocation site) {
  return invoke_one(k_sequence_last, {x, lengths}, Attributes::of(SequenceAttributes{axis}), site);
}

NDArray sequence_reverse(const NDArray& x, const NDArray& lengths, int axis, SourceLocation site) {
  return invoke_one(k_sequence_reverse, {x, lengths}, Attributes::of(SequenceAttributes{axis}), site);
}

detail::OperatorList detail::sequence_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_sequence_mask, &k_sequence_reverse, &k_sequence_last, &k_sequence_last_backward};
  return list;
}

}  // namespace sluice
