// put and masked_fill: entries replaced that stand anywhere in an array, as operators made of others.
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gather/replaced.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using detail::GatherAttributes;
using detail::IndexKind;

// -- put: values at indices into all elements -----------------------------------------------------------------------
struct PutAttributes {
  std::int64_t mode = 0;

  template <class V>
  void visit(V&& v) {
    v.field("mode", mode);
  }
};

Specs infer_put(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_mode(op, attributes.as<PutAttributes>().mode);
  const Shape taken = detail::taken_shape(op.name, IndexKind::axis, inputs[1], {inputs[0].shape.size()}, 0);
  detail::check_stretches(inputs[2].shape, taken, op.name);
  return {inputs[0]};
}

Arrays put_flat(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_put(detail::k_put, detail::specs_of(inputs), attributes);
  const GatherAttributes how{.mode = attributes.as<PutAttributes>().mode, .asked = detail::k_put.name};
  const NDArray flat = inputs[0].reshape({-1}, site);
  const NDArray made = invoke_one(k_index_update, {flat, inputs[1], inputs[2]}, Attributes::of(how), site);
  return {made.reshape(detail::with_open_rows(detail::unseen_shape(inputs[0])), site)};
}

// -- masked_fill ----------------------------------------------------------------------------------------------------
struct FillAttributes {
  Scalar value = 0;  // of calls without an array of values

  template <class V>
  void visit(V&& v) {
    v.field("value", value);
  }
};

// x, the mask, maybe values
Specs infer_masked_fill(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 2 || inputs.size() == 3, [&] {
    return message(op.name, ": takes an array, a mask and maybe values, was given ", inputs.size(), " inputs");
  });
  const Shape &shape = inputs[0].shape, &over = inputs[1].shape;
  require<DTypeError>(
      inputs[1].dtype == bool_, [&] { return message(op.name, ": a mask is bool, not ", inputs[1].dtype); });
  bool fits = over.ndim() <= shape.ndim();
  for (int axis = 0; fits && axis < over.ndim(); ++axis)
    fits = shape[axis] == over[axis];
  require<ShapeError>(fits, [&] { return message(op.name, ": a mask of shape ", over, " over shape ", shape); });
  const Scalar value = attributes.as<FillAttributes>().value;
  if (inputs.size() == 3)
    detail::check_stretches(inputs[2].shape, shape, op.name);
  else if (value.kind() == Scalar::Kind::integer)
    detail::check_fits(op.name, value, inputs[0].dtype);
  return {inputs[0]};
}

Arrays fill_masked(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray& x = inputs[0];
  const Scalar value = attributes.as<FillAttributes>().value;
  const Shape& shape = detail::unseen_shape(x);
  NDArray mask = inputs[1], values = inputs.size() == 3 ? inputs[2] : NDArray();
  for (int axis = detail::unseen_shape(mask).ndim(); axis < shape.ndim(); ++axis)
    mask = mask.expand_dims(axis, site);
  // Beside a real number integers would become floats, those that the mask leaves too.
  if (!values.defined() && !is_floating(x.dtype()) && value.kind() == Scalar::Kind::real)
    values = full({}, value, {.dtype = float64, .device = x.device()}, site);
  if (!values.defined())
    return {where(mask, value, x, site).astype(x.dtype(), site)};
  values = detail::stretched_as(values, shape, detail::k_masked_fill.name, site, [&] { return x; });
  return {where(mask, values.astype(x.dtype(), site), x, site)};
}

}  // namespace

constinit const Operator detail::k_put = {
    .name = "put",
    .inputs = 3,
    .attributes = &attribute_type<PutAttributes>,
    .infer = infer_put,
    .composition = put_flat,
};
constinit const Operator detail::k_masked_fill = {
    .name = "masked_fill",
    .inputs = -1,
    .attributes = &attribute_type<FillAttributes>,
    .infer = infer_masked_fill,
    .composition = fill_masked,
};

NDArray put(const NDArray& x, const NDArray& indices, const NDArray& values, IndexMode mode, SourceLocation site) {
  const PutAttributes how{static_cast<std::int64_t>(mode)};
  return invoke_one(detail::k_put, {x, indices, values}, Attributes::of(how), site);
}

NDArray masked_fill(const NDArray& x, const NDArray& mask, const NDArray& value, SourceLocation site) {
  return invoke_one(detail::k_masked_fill, {x, mask, value}, Attributes::of(FillAttributes{}), site);
}

NDArray masked_fill(const NDArray& x, const NDArray& mask, Scalar value, SourceLocation site) {
  return invoke_one(detail::k_masked_fill, {x, mask}, Attributes::of(FillAttributes{value}), site);
}

}  // namespace sluice
