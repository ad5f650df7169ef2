#pragma once

#include <optional>

#include <sluice/ndarray/shape.h>
#include <sluice/operator/operator.h>

// Rules that bring calls to their normal form (Operator::normalise), for more than one family.
namespace sluice::detail {

/// All inputs of type `dtype`, cast where they are not.
bool cast_inputs(const RawCall& call, DType dtype, NormalCall& normal);
/// All inputs of the one type that promote() gives for theirs: what `normalise` does for products.
bool promote_inputs(const RawCall& call, NormalCall& normal);

/// The shape with its first extent left open, -1, where the others determine it: what is reshaped to it is one call for
/// every number of rows.
Shape with_open_rows(Shape shape);

/// The call as it is given, for who then changes something of it.
void as_given(const RawCall& call, NormalCall& normal);

/// The call with other attributes.
template <class A>
bool with_attributes(const RawCall& call, A attributes, NormalCall& normal) {
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.attributes = Attributes::of(std::move(attributes));
  return true;
}

inline std::optional<std::int64_t> given_axis(std::int64_t axis) noexcept {
  return axis;
}
inline std::optional<std::int64_t> given_axis(std::optional<std::int64_t> axis) noexcept {
  return axis;
}

/// The attribute `axis` of a call in its normal form.
template <class A>
int axis_of(const Attributes& attributes) {
  return static_cast<int>(given_axis(attributes.as<A>().axis).value_or(0));
}

/// The attribute `axis` counted from the front of that input. Throws IndexError for an axis that it does not have,
/// ValueError where there is none.
template <class A, std::size_t input = 0>
bool normalise_axis(const RawCall& call, NormalCall& normal) {
  const A& given = call.attributes.as<A>();
  require<ValueError>(given_axis(given.axis).has_value(), [&] { return message(call.op.name, ": along which axis?"); });
  const int axis = normal_axis(*given_axis(given.axis), call.inputs[input].ndim(), call.op.name);
  if (axis == given.axis)
    return false;
  A counted = given;
  counted.axis = axis;
  return with_attributes(call, std::move(counted), normal);
}

/// The same of operators for which no axis means all elements of the one input, row by row, as one axis.
template <class A>
bool normalise_axis_or_all(const RawCall& call, NormalCall& normal) {
  A counted = call.attributes.as<A>();
  if (given_axis(counted.axis))
    return normalise_axis<A>(call, normal);
  counted.axis = 0;
  with_attributes(call, std::move(counted), normal);
  normal.inputs[0] = normal.inputs[0].reshape({-1}, call.site);
  return true;
}

}  // namespace sluice::detail
