// What takes entries of several axes, or along one for each place, as `take` does of one.
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice {

using detail::IndexKind;

namespace detail {

namespace {

void check_tuples(const char* op, const Shape& indices, const Shape& x, int axis) {
  require<ShapeError>(indices.ndim() > 0 && indices[0] >= 1 && axis + indices[0] <= x.ndim(), [&] {
    return message(op, ": indices of shape ", indices, " from axis ", axis, " of shape ", x);
  });
}

// Their other axes agree.
void check_along(const char* op, const Shape& indices, const Shape& x, int axis) {
  const bool fits = indices.ndim() == x.ndim() && without_axis(indices, axis) == without_axis(x, axis);
  require<ShapeError>(
      fits, [&] { return message(op, ": indices of shape ", indices, " along axis ", axis, " of shape ", x); });
}

}  // namespace

void check_mode(const Operator& op, std::int64_t mode) {
  constexpr auto last = static_cast<std::int64_t>(IndexMode::wrap);
  require<ValueError>(mode >= 0 && mode <= last, [&] {
    return message(op.name, ": mode ", mode, " is none; 0 is raise, 1 clip, 2 wrap");
  });
}

int checked_axis(const Operator& op, const Attributes& attributes) {
  check_mode(op, attributes.as<GatherAttributes>().mode);
  return axis_of<GatherAttributes>(attributes);
}

void check_indices(const char* op, const ArraySpec& indices) {
  require<DTypeError>(
      is_integer(indices.dtype), [&] { return message(op, ": indices are of an integer type, not ", indices.dtype); });
}

Shape taken_shape(const char* op, IndexKind kind, const ArraySpec& indices, const Shape& x, int axis) {
  check_indices(op, indices);
  Shape named = indices.shape, taken = x;
  int axes = 1;
  if (kind == IndexKind::along)
    check_along(op, named, x, axis);
  if (kind == IndexKind::tuple) {
    check_tuples(op, named, x, axis);
    axes = static_cast<int>(named[0]);
    named.erase(0);
  }
  bool has_entries = true;
  for (int i = 0; i < axes; ++i) {
    has_entries = has_entries && taken[axis] > 0;
    taken.erase(axis);
  }
  require<ValueError>(has_entries || named.size() == 0, [&] {
    return message(op, ": nothing to take from along axis ", axis, " of shape ", x);
  });
  if (kind == IndexKind::along)
    return named;
  for (int i = 0; i < named.ndim(); ++i)
    taken.insert(axis + i, named[i]);
  return taken;
}

void check_taken(const char* op, const Shape& given, const Shape& taken) {
  require<ShapeError>(given == taken, [&] {
    return message(op, ": an array of shape ", given, " is not one of entries, of shape ", taken);
  });
}

void check_added(const Operator& op, DType dtype) {
  require<DTypeError>(is_floating(dtype) || dtype == int64, [&] {
    return message(op.name, ": adds up floating types and int64, not ", dtype);
  });
}

bool normalise_along(const RawCall& call, NormalCall& normal) {
  const bool counted = normalise_axis<GatherAttributes>(call, normal);
  if (!counted)
    as_given(call, normal);
  NDArray &x = normal.inputs[0], &indices = normal.inputs[1];
  const Shape from = x.shape(), numbers = indices.shape();
  const int at = axis_of<GatherAttributes>(normal.attributes);
  require<ShapeError>(from.ndim() == numbers.ndim(), [&] {
    return message(call.op.name, ": indices of shape ", numbers, " along axis ", at, " of shape ", from);
  });
  Shape beside = broadcast_shape(without_axis(from, at), without_axis(numbers, at), call.op.name);
  beside.insert(at, from[at]);
  const auto beside_other = [&](const NDArray& other) {
    return [&] { return model_along(other, at, beside, call.op.name); };
  };
  const NDArray given = x;
  x = stretched_as(x, beside, call.op.name, call.site, beside_other(indices));
  beside[at] = numbers[at];
  indices = stretched_as(indices, beside, call.op.name, call.site, beside_other(given));
  return counted || !x.same(call.inputs[0]) || !indices.same(call.inputs[1]);
}

Taking taking_of(IndexKind kind, const GatherAttributes& how, const TensorView& indices, const Shape& x) {
  Taking taking;
  taking.axis = how.axis;
  Placing& place = taking.place;
  TakeLayout& at = taking.at;
  place.data = indices.data;
  place.dtype = indices.dtype;
  place.mode = how.index_mode();
  place.axes = kind == IndexKind::tuple ? static_cast<int>(indices.shape[0]) : 1;
  place.count = indices.size / place.axes;
  at.indices = place.count;
  const int axis = static_cast<int>(how.axis);
  for (int i = 0; i < x.ndim(); ++i) {
    const bool named = i >= axis && i < axis + place.axes;
    (named ? at.n : i < axis ? at.outer : at.inner) *= x[i];
    if (named)
      place.extents[i - axis] = x[i];
  }
  if (kind == IndexKind::along) {
    place.entries = indices.shape[axis];
    place.inner = at.inner;
    at = {1, x.size(), place.count, 1};
  }
  return taking;
}

}  // namespace detail

constinit const Operator k_gather_nd = {
    .name = "gather_nd",
    .inputs = 2,
    .attributes = &attribute_type<detail::GatherAttributes>,
    .normalise = detail::normalise_axis<detail::GatherAttributes>,
    .infer = detail::infer_taken<IndexKind::tuple>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_cpu, IndexKind::tuple>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_gpu, IndexKind::tuple>)))},
    .gradient = detail::gather_gradient<k_gather_nd_backward>,
    .saved_inputs = 0b10,
    .strided_inputs = 0b01,
};
constinit const Operator k_gather_nd_backward = {
    .name = "gather_nd_backward",
    .inputs = 3,
    .attributes = &attribute_type<detail::GatherAttributes>,
    .normalise = detail::normalise_axis<detail::GatherAttributes, 2>,
    .infer = detail::infer_taken_backward<IndexKind::tuple>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_backward_cpu, IndexKind::tuple>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_backward_gpu, IndexKind::tuple>)))},
    .gradient = detail::scatter_gradient<k_gather_nd>,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};
constinit const Operator k_take_along_axis = {
    .name = "take_along_axis",
    .inputs = 2,
    .attributes = detail::k_gather_attributes<IndexKind::along>,
    .normalise = detail::normalise_along,
    .infer = detail::infer_taken<IndexKind::along>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_cpu, IndexKind::along>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_gpu, IndexKind::along>)))},
    .gradient = detail::gather_gradient<k_take_along_axis_backward>,
    .saved_inputs = 0b10,
};
constinit const Operator k_take_along_axis_backward = {
    .name = "take_along_axis_backward",
    .inputs = 3,
    .attributes = detail::k_gather_attributes<IndexKind::along>,
    .normalise = detail::normalise_axis<detail::GatherAttributes, 2>,
    .infer = detail::infer_taken_backward<IndexKind::along>,
    .kernels =
        {on_cpu(detail::run_as<detail::take_backward_cpu, IndexKind::along>),
         on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::take_backward_gpu, IndexKind::along>)))},
    .gradient = detail::scatter_gradient<k_take_along_axis>,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};

}  // namespace sluice
