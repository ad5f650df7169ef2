// a[{..}] with index arrays among the subscripts: read, written and added to, by views and what takes entries.
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gather/subscripted.h>

namespace sluice::detail {

namespace {

// The axes that the array has, in the order in which they are to stand.
Shape axes_of(const Shape& order) {
  Shape axes;
  for (const std::int64_t axis : order) {
    if (axis >= 0)
      axes.push_back(axis);
  }
  return axes;
}

bool is_in_place(const Shape& axes) {
  bool in_place = true;
  for (int i = 0; i < axes.ndim(); ++i)
    in_place = in_place && axes[i] == i;
  return in_place;
}

Attributes view_of(const IndexAssignAttributes& attributes) {
  return Attributes::of(static_cast<const SubscriptAttributes&>(attributes));
}

// All along a first axis, as operators of several axes take them.
NDArray tuples(const char* op, const std::vector<NDArray>& arrays, SourceLocation site) {
  const Indices numbers = joined(op, arrays, site);
  return numbers.kind == IndexKind::axis ? numbers.array.expand_dims(0, site) : numbers.array;
}

ArraySpec spec_of_numbers(const NDArray& numbers) {
  return {numbers.object()->shape, numbers.object()->dtype};
}

// What is added to the part of x that ranges leave: sums of integers are made in int64.
NDArray sums_at(
    const char* op, const NDArray& x, const ParsedSubscripts& parsed, const NDArray& values, SourceLocation site) {
  const IndexAssignAttributes call = parsed.placed();
  const NDArray part = placed_view(x, call, site);
  if (parsed.arrays.empty())
    return put_back(stretched_as(values, part.object()->shape, op, site, [&] { return part; }), call, site)
        .astype(x.dtype(), site);
  const NDArray numbers = tuples(op, parsed.arrays, site);
  const Shape taken =
      taken_shape(op, IndexKind::tuple, spec_of_numbers(numbers), part.object()->shape, static_cast<int>(call.axis));
  const DType wide = is_floating(x.dtype()) ? x.dtype() : int64;
  const auto model = [&] {
    return model_of_taken(part, numbers, IndexKind::tuple, static_cast<int>(call.axis), taken, op);
  };
  const NDArray added = stretched_as(values.astype(x.dtype(), site), taken, op, site, model).astype(wide, site);
  const GatherAttributes along{.axis = call.axis, .asked = op};
  const NDArray sums = invoke_one(k_gather_nd_backward, {numbers, added, part}, Attributes::of(along), site);
  return put_back(sums, call, site).astype(x.dtype(), site);
}

NDArray part_with(const NDArray& x, const IndexAssignAttributes& call, const NDArray& sums, SourceLocation site) {
  const NDArray part = is_whole(call) ? x : invoke_view(k_slice_axes, x, view_of(call), site);
  return add(part, sums, site).astype(x.dtype(), site);
}

}  // namespace

NDArray placed_view(const NDArray& x, const IndexAssignAttributes& attributes, SourceLocation site) {
  NDArray view = is_whole(attributes) ? x : invoke_view(k_slice_axes, x, view_of(attributes), site);
  const Shape axes = axes_of(attributes.order);
  if (!is_in_place(axes))
    view = view.transpose(axes, site);
  for (int i = 0; i < attributes.order.ndim(); ++i) {
    if (attributes.order[i] < 0)
      view = view.expand_dims(i, site);
  }
  return view;
}

NDArray put_back(const NDArray& view, const IndexAssignAttributes& attributes, SourceLocation site) {
  NDArray part = view;
  for (int i = attributes.order.ndim(); i-- > 0;) {
    if (attributes.order[i] < 0)
      part = part.squeeze(i, site);
  }
  const Shape axes = axes_of(attributes.order);
  Shape back = axes;
  for (int i = 0; i < axes.ndim(); ++i)
    back[static_cast<int>(axes[i])] = i;
  return is_in_place(axes) ? part : part.transpose(back, site);
}

NDArray taken_at(const NDArray& x, const ParsedSubscripts& parsed, SourceLocation site) {
  constexpr const char* k_name = "operator[]";
  const IndexAssignAttributes call = parsed.placed();
  const Indices numbers = joined(k_name, parsed.arrays, site);
  const Operator& op = numbers.kind == IndexKind::axis ? k_take : k_gather_nd;
  const GatherAttributes along{.axis = call.axis, .asked = k_name};
  NDArray taken = invoke_one(op, {placed_view(x, call, site), numbers.array}, Attributes::of(along), site);
  taken.object()->is_indexed = true;
  return taken;
}

NDArray put_at(
    const char* op,
    const NDArray& x,
    const ParsedSubscripts& parsed,
    const NDArray& values,
    SourceLocation site,
    std::span<const NDArray> destination) {
  IndexAssignAttributes call = parsed.placed();
  call.asked = op;
  const Shape& whole = object_of(x, op).shape;
  const Shape part = placed_geometry(op, {whole, contiguous_strides(whole), 0}, call).shape;
  if (parsed.arrays.empty()) {
    const auto model = [&] { return placed_view(x, call, site); };
    const NDArray inputs[] = {x, put_back(stretched_as(values, part, op, site, model), call, site)};
    return invoke(k_slice_assign, inputs, view_of(call), site, destination)[0];
  }
  const NDArray numbers = tuples(op, parsed.arrays, site);
  const Shape taken = taken_shape(op, IndexKind::tuple, spec_of_numbers(numbers), part, static_cast<int>(call.axis));
  const auto model = [&] {
    return model_of_taken(
        placed_view(x, call, site), numbers, IndexKind::tuple, static_cast<int>(call.axis), taken, op);
  };
  const NDArray inputs[] = {x, stretched_as(values, taken, op, site, model), numbers};
  return invoke(k_index_assign, inputs, Attributes::of(call), site, destination)[0];
}

NDArray added_at(const NDArray& x, const ParsedSubscripts& parsed, const NDArray& values, SourceLocation site) {
  const IndexAssignAttributes call = parsed.placed();
  const NDArray part = part_with(x, call, sums_at("index_add", x, parsed, values, site), site);
  return is_whole(call) ? part : invoke_one(k_slice_assign, {x, part}, view_of(call), site);
}

void add_into(const NDArray& x, const ParsedSubscripts& parsed, const NDArray& values, SourceLocation site) {
  const IndexAssignAttributes call = parsed.placed();
  // Made before x is written, so that nothing looks at it any more.
  const NDArray part = part_with(x, call, sums_at("add_at", x, parsed, values, site), site);
  const NDArray inputs[] = {x, part};
  invoke(k_slice_assign, inputs, view_of(call), site, {&x, 1});
}

}  // namespace sluice::detail
