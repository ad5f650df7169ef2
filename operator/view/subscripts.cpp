// a[{..}]: entries and ranges of several axes as one view, and what is written there.
#include <optional>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::SubscriptAttributes;

Geometry subscripted(const Operator& op, const Geometry& input, const Shape*, const Attributes& attributes) {
  const auto& a = attributes.as<SubscriptAttributes>();
  const int axes = a.begin.ndim();
  require<ValueError>(a.end.ndim() == axes && a.step.ndim() == axes, [&] {
    return message(op.name, ": begin ", a.begin, ", end ", a.end, " and step ", a.step, " are of different lengths");
  });
  require<IndexError>(axes <= input.shape.ndim(), [&] {
    return message(op.name, ": ", axes, " subscripts of an array of shape ", input.shape);
  });
  Geometry view = input;
  int at = 0;
  for (int axis = 0; axis < axes; ++axis) {
    const std::int64_t entry = a.begin[axis], extent = view.shape[at];
    if (a.step[axis] != 0) {
      detail::slice_axis(op.name, view, at++, entry, a.end[axis], a.step[axis]);
      continue;
    }
    require<IndexError>(entry >= -extent && entry < extent, [&] {
      detail::ShapeWatch::note_error();
      return message(op.name, ": index ", entry, " is out of bounds for axis ", axis, " of shape ", input.shape);
    });
    view.offset += (entry < 0 ? entry + extent : entry) * view.strides[at];
    view.shape.erase(at);
    view.strides.erase(at);
  }
  return view;
}

Shape part_of(const Operator& op, const Shape& whole, const Attributes& attributes) {
  return subscripted(op, {whole, contiguous_strides(whole), 0}, nullptr, attributes).shape;
}

// -- unslice_axes, the gradient: zeros of the second input's shape, with dy where the view was ----------------------
Specs infer_unslice(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return detail::infer_unsliced(op, inputs, attributes, subscripted);
}

void issue_unslice(const IssueCall& call) {
  detail::issue_unsliced(call, subscripted);
}

NDArray view_with(const NDArray& array, const Attributes& attributes) {
  return detail::invoke_view(detail::k_slice_axes, array, attributes, SourceLocation::current());
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
  const Geometry at = subscripted(call.op, detail::geometry_of(y), nullptr, call.attributes);
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
/// What subscripts say of an array: one view of its axes, and axes that the view gets beside, by their places in it.
struct Parsed {
  SubscriptAttributes attributes;
  std::vector<int> new_axes;
};

Parsed parse(std::initializer_list<Subscript> at, const Shape& shape) {
  using Kind = Subscript::Kind;
  int named = 0, rests = 0;
  for (const Subscript& each : at) {
    named += each.kind() == Kind::entry || each.kind() == Kind::range ? 1 : 0;
    rests += each.kind() == Kind::rest ? 1 : 0;
  }
  require<IndexError>(named <= shape.ndim(), [&] {
    return message("operator[]: ", named, " subscripts of an array of shape ", shape);
  });
  require<IndexError>(
      rests <= 1, [&] { return message("operator[]: ", rests, " times k_rest, of which one may stand"); });
  Parsed parsed;
  const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t step) {
    parsed.attributes.begin.push_back(begin);
    parsed.attributes.end.push_back(end);
    parsed.attributes.step.push_back(step);
  };
  int place = 0;  // in the result
  for (const Subscript& each : at) {
    if (each.kind() == Kind::new_axis) {
      parsed.new_axes.push_back(place++);
    } else if (each.kind() == Kind::entry) {
      add(each.begin(), 0, 0);
    } else if (each.kind() == Kind::range) {
      require<ValueError>(each.step() != 0, [] { return "operator[]: the step of a range must not be 0"; });
      add(each.begin(), each.end(), each.step());
      ++place;
    } else {
      for (int left = shape.ndim() - named; left > 0; --left, ++place)
        add(Subscript().begin(), Subscript().end(), 1);
    }
  }
  return parsed;
}

NDArray with_new_axes(NDArray view, const std::vector<int>& axes) {
  for (const int axis : axes)
    view = view.expand_dims(axis);
  return view;
}

// What is written there has no axes that the array does not have.
NDArray without_new_axes(NDArray value, const std::vector<int>& axes) {
  for (std::size_t i = axes.size(); i-- > 0;)
    value = value.squeeze(axes[i]);
  return value;
}

}  // namespace

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
    .view = subscripted,
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
  const Parsed parsed = parse(at, detail::object_of(*this, "operator[]").shape);
  return with_new_axes(view_with(*this, Attributes::of(parsed.attributes)), parsed.new_axes);
}

const NDArray& NDArray::assign(std::initializer_list<Subscript> at, const NDArray& value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    const Shape& whole = detail::object_of(*this, "assign").shape;
    require<ValueError>(value.defined(), [] { return "assign: the value is an undefined NDArray"; });
    const Parsed parsed = parse(at, whole);
    const Attributes attributes = Attributes::of(parsed.attributes);
    Shape part = part_of(detail::k_slice_assign, whole, attributes);
    for (const int axis : parsed.new_axes)
      part.insert(axis, 1);
    NDArray brought = value.to(device(), site);
    if (brought.object()->shape != part)
      brought = brought.broadcast_to(part, site);
    const NDArray inputs[] = {*this, without_new_axes(brought, parsed.new_axes)};
    invoke(detail::k_slice_assign, inputs, attributes, site, {this, 1});
    return *this;
  });
}

const NDArray& NDArray::assign(std::initializer_list<Subscript> at, Scalar value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    detail::check_fits("assign", value, detail::object_of(*this, "assign").dtype);
    return assign(at, full({}, value, {.dtype = dtype(), .device = device()}), site);
  });
}

}  // namespace sluice
