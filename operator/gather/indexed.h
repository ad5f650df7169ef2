#pragma once

#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/sink.h>

// What operators that take entries, add them up or replace them have in common, whatever their kind of numbers.
namespace sluice::detail {

/// Throws DTypeError unless they are integers.
void check_indices(const char* op, const ArraySpec& indices);
/// The shape of what is taken from an array of shape `x`. Throws DTypeError, ShapeError for numbers that do not fit,
/// ValueError where there is nothing to take.
Shape taken_shape(const char* op, IndexKind kind, const ArraySpec& indices, const Shape& x, int axis);
/// Throws ShapeError unless `given` is the shape of what is taken.
void check_taken(const char* op, const Shape& given, const Shape& taken);
/// Throws DTypeError for elements that are not added up: all but floating ones and int64.
void check_added(const Operator& op, DType dtype);

/// Throws ValueError for a mode that there is not.
void check_mode(const Operator& op, std::int64_t mode);
/// The axis of a call. Throws ValueError for a mode that there is not.
int checked_axis(const Operator& op, const Attributes& attributes);

/// The axis counted from the front, and, along it, the first two inputs with the same extents beside it, for calls of x
/// and indices. Throws ShapeError where they cannot have them.
bool normalise_along(const RawCall& call, NormalCall& normal);
template <IndexKind kind>
bool normalise_beside(const RawCall& call, NormalCall& normal) {
  return kind == IndexKind::along ? normalise_along(call, normal) : normalise_axis<GatherAttributes>(call, normal);
}

/// x, indices
template <IndexKind kind>
Specs infer_taken(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  spec.shape = taken_shape(op.name, kind, inputs[1], inputs[0].shape, checked_axis(op, attributes));
  return {spec};
}

/// indices, dy, x: dy's type
template <IndexKind kind>
Specs infer_taken_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_taken(
      op.name, inputs[1].shape, taken_shape(op.name, kind, inputs[0], inputs[2].shape, checked_axis(op, attributes)));
  check_added(op, inputs[1].dtype);
  ArraySpec spec = inputs[1];
  spec.shape = inputs[2].shape;
  return {spec};
}

/// The attributes for a gradient: its tasks are its own, not those of what the program called.
inline Attributes for_gradient(const Attributes& given) {
  GatherAttributes how = given.as<GatherAttributes>();
  how.asked = nullptr;
  return Attributes::of(how);
}

// What takes and what adds up where it was taken: each is the other's gradient.
template <const Operator& Backward>
Arrays gather_gradient(const GradientCall& call) {
  const NDArray x = shape_only(call.input_specs[0]);
  return {invoke_one(Backward, {call.inputs[1], call.output_grads[0], x}, for_gradient(call.attributes), {}), {}};
}
template <const Operator& Forward>
Arrays scatter_gradient(const GradientCall& call) {
  return {{}, invoke_one(Forward, {call.output_grads[0], call.inputs[0]}, for_gradient(call.attributes), {}), {}};
}

/// A kernel for all kinds of numbers as one for `kind`.
template <auto kernel, IndexKind kind>
void run_as(const KernelCall& call) {
  kernel(call, kind);
}

}  // namespace sluice::detail
