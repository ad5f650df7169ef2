// a[{..}]: entries and ranges of several axes as one view, and what is written there.
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/gather/subscripted.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>
#include <sluice/operator/view/parsed_subscripts.h>

namespace sluice {

namespace {

using detail::SubscriptAttributes;

Geometry viewed(const Operator& op, const Geometry& input, const Shape*, const Attributes& attributes) {
  return detail::subscripted(op.name, input, attributes.as<SubscriptAttributes>());
}

Shape part_of(const Operator& op, const Shape& whole, const Attributes& attributes) {
  return viewed(op, {whole, contiguous_strides(whole), 0}, nullptr, attributes).shape;
}

// -- unslice_axes, the gradient: zeros of the second input's shape, with dy where the view was ----------------------
Specs infer_unslice(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return detail::infer_unsliced(op, inputs, attributes, viewed);
}

void issue_unslice(const IssueCall& call) {
  detail::issue_unsliced(call, viewed);
}

NDArray view_with(const NDArray& array, const Attributes& attributes, SourceLocation site = SourceLocation::current()) {
  return detail::invoke_view(detail::k_slice_axes, array, attributes, site);
}

Arrays unslice_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? view_with(dy, call.attributes) : NDArray(), NDArray()};
}

Arrays view_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const NDArray whole = shape_only(call.input_specs[0]);
  return {invoke_one(detail::k_unslice_axes, {dy, whole}, call.attributes, SourceLocation::current())};
}

// -- slice_assign: x with values in a part of it --------------------------------------------------------------------
Specs infer_assign(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &x = inputs[0], &values = inputs[1];
  const Shape part = part_of(op, x.shape, attributes);
  require<ShapeError>(values.shape == part, [&] {
    return message(op.name, ": values of shape ", values.shape, " for the part of shape ", part, " of ", x.shape);
  });
  return {x};
}

void issue_assign(const IssueCall& call) {
  const NDArray &x = call.inputs[0], &values = call.inputs[1], &y = call.outputs[0];
  const bool in_place = x.object()->buffer == y.object()->buffer && x.strides() == y.strides() &&
                        x.object()->offset == y.object()->offset;
  // What x is written over first may be what the values are.
  const NDArray part = !in_place && detail::overlaps(values, y) ? values.copy(call.site) : values;
  if (!in_place)
    detail::push_copy(x, y, call.site);
  const Geometry at = viewed(call.op, detail::geometry_of(y), nullptr, call.attributes);
  detail::push_copy(part, detail::make_view(y, at.shape, at.strides, at.offset), call.site);
}

Arrays assign_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  const ArraySpec& values = call.input_specs[1];
  const NDArray none = zeros_like(shape_only(values));
  return {
      invoke_one(detail::k_slice_assign, {dy, none}, call.attributes, SourceLocation::current()),
      view_with(dy, call.attributes).astype(values.dtype)};
}

// -- Subscripts -----------------------------------------------------------------------------------------------------
NDArray with_new_axes(NDArray view, const std::vector<int>& axes, SourceLocation site) {
  for (const int axis : axes)
    view = view.expand_dims(axis, site);
  return view;
}

// Of the first that stands there, and is no constant.
SourceLocation line_of(std::initializer_list<Subscript> at) {
  for (const Subscript& each : at) {
    if (each.site().line != 0)
      return each.site();
  }
  return SourceLocation::current();
}

}  // namespace

Geometry detail::subscripted(const char* op, const Geometry& input, const SubscriptAttributes& a) {
  const int axes = a.begin.ndim();
  require<ValueError>(a.end.ndim() == axes && a.step.ndim() == axes, [&] {
    return message(op, ": begin ", a.begin, ", end ", a.end, " and step ", a.step, " are of different lengths");
  });
  require<IndexError>(axes <= input.shape.ndim(), [&] {
    return message(op, ": ", axes, " subscripts of an array of shape ", input.shape);
  });
  Geometry view = input;
  int at = 0;
  for (int axis = 0; axis < axes; ++axis) {
    const std::int64_t entry = a.begin[axis], extent = view.shape[at];
    if (a.step[axis] != 0) {
      slice_axis(op, view, at++, entry, a.end[axis], a.step[axis]);
      continue;
    }
    require<IndexError>(entry >= -extent && entry < extent, [&] {
      ShapeWatch::note_error();
      return message(op, ": index ", entry, " is out of bounds for axis ", axis, " of shape ", input.shape);
    });
    view.offset += (entry < 0 ? entry + extent : entry) * view.strides[at];
    view.shape.erase(at);
    view.strides.erase(at);
  }
  return view;
}

const Operator detail::k_unslice_axes{
    .name = "unslice_axes",
    .inputs = 2,
    .attributes = &attribute_type<SubscriptAttributes>,
    .infer = infer_unslice,
    .issue = issue_unslice,
    .gradient = unslice_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .shape_inputs = 0b10};
const Operator detail::k_slice_axes{
    .name = "slice_axes",
    .attributes = &attribute_type<SubscriptAttributes>,
    .view = viewed,
    .gradient = view_gradient};
const Operator detail::k_slice_assign{
    .name = "slice_assign",
    .inputs = 2,
    .attributes = &attribute_type<SubscriptAttributes>,
    .infer = infer_assign,
    .issue = issue_assign,
    .gradient = assign_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true};

NDArray NDArray::operator[](std::initializer_list<Subscript> at) const {
  const SourceLocation site = line_of(at);
  return detail::located(site, [&] {
    const detail::ParsedSubscripts parsed =
        detail::parse_subscripts("operator[]", at, detail::object_of(*this, "operator[]").shape, site);
    if (!parsed.arrays.empty())
      return detail::taken_at(*this, parsed, site);
    return with_new_axes(view_with(*this, Attributes::of(parsed.attributes), site), parsed.new_axes, site);
  });
}

NDArray NDArray::operator[](const Subscript& at) const {
  if (at.kind() != Subscript::Kind::entry)
    return (*this)[std::initializer_list<Subscript>{at}];
  return detail::located(at.site(), [&] {
    const Shape& from = detail::object_of(*this, "operator[]").shape;
    const std::int64_t index = at.begin();
    require<IndexError>(
        from.ndim() > 0, [&] { return message("operator[]: index ", index, " of an array of no axes"); });
    require<IndexError>(index >= -from[0] && index < from[0], [&] {
      return message("operator[]: index ", index, " is out of bounds for axis 0 of shape ", from);
    });
    const std::int64_t begin = index < 0 ? index + from[0] : index;
    return slice(0, begin, begin + 1, 1, at.site()).squeeze(0, at.site());
  });
}

const NDArray& NDArray::assign(std::initializer_list<Subscript> at, const NDArray& value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    const Shape& whole = detail::object_of(*this, "assign").shape;
    require<ValueError>(value.defined(), [] { return "assign: the value is an undefined NDArray"; });
    const detail::ParsedSubscripts parsed = detail::parse_subscripts("assign", at, whole, site);
    detail::put_at("assign", *this, parsed, value.to(device(), site), site, {this, 1});
    return *this;
  });
}

const NDArray& NDArray::assign(std::initializer_list<Subscript> at, Scalar value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    detail::check_fits("assign", value, detail::object_of(*this, "assign").dtype);
    return assign(at, full({}, value, {.dtype = dtype(), .device = device()}), site);
  });
}

const NDArray& NDArray::add_at(std::initializer_list<Subscript> at, const NDArray& values, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    const Shape& whole = detail::object_of(*this, "add_at").shape;
    require<ValueError>(values.defined(), [] { return "add_at: the values are an undefined NDArray"; });
    detail::add_into(*this, detail::parse_subscripts("add_at", at, whole, site), values.to(device(), site), site);
    return *this;
  });
}

}  // namespace sluice
