// The operators of walk.def and the functions that call them, axis by axis.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/walk/rows.h>
#include <sluice/operator/walk/walk.h>

namespace sluice {

namespace {

using detail::WalkAttributes;
using detail::WalkRow;

template <AxisWalk row>
struct Moves {
  static const Operator op;
};

template <AxisWalk row>
NDArray walked(
    const NDArray& x,
    decltype(WalkAttributes<row>::axis) axis,
    std::int64_t a,
    std::int64_t b,
    SourceLocation site = {}) {
  WalkAttributes<row> attributes;
  attributes.axis = axis;
  attributes.a = a;
  attributes.b = b;
  return invoke_one(Moves<row>::op, {x}, Attributes::of(attributes), site);
}

// -- what gradients are written with: as far as can be without the axis' extent, which may be that of a batch ---------
constexpr std::int64_t k_end = std::numeric_limits<std::int64_t>::max();

// Without so many entries at the ends.
NDArray unpadded(const NDArray& dy, int axis, std::int64_t before, std::int64_t after) {
  return dy.slice(axis, before, after == 0 ? k_end : -after);
}
NDArray last_of(const NDArray& dy, int axis, std::int64_t entries) {
  return dy.slice(axis, -entries, k_end);
}

NDArray of_edges(const NDArray& dy, int axis, std::int64_t n, std::int64_t before, std::int64_t after) {
  if (n == 1)
    return sum(dy, {axis}, true);
  const NDArray first_sum = sum(dy.slice(axis, 0, before + 1), {axis}, true);
  const NDArray last_sum = sum(last_of(dy, axis, after + 1), {axis}, true);
  return concat({first_sum, unpadded(dy, axis, before + 1, after + 1), last_sum}, axis);
}

// To and fro is a period of 2 (n - 1) entries: whole ones are added up in one sum, in float for half types, and folded.
NDArray of_periods(const NDArray& dy, const Shape& x_shape, int axis, std::int64_t before, std::int64_t after) {
  const detail::AxisLayout at = detail::axis_layout(x_shape, axis);
  const std::int64_t n = at.n, period = 2 * (n - 1);
  const auto missing = [period](std::int64_t entries) { return (period - entries % period) % period; };
  const std::int64_t front = missing(before), back = missing(n + after);
  const std::int64_t periods = (front + before) / period + (n + after + back) / period;
  Shape one_period = x_shape;
  one_period[axis] = period;
  const NDArray whole = walked<AxisWalk::pad>(dy, axis, front, back)
                            .reshape(detail::with_open_rows({at.outer, periods, period, at.inner}));
  const NDArray summed = sum(whole, {1}).reshape(detail::with_open_rows(one_period));
  const NDArray dx = summed.slice(axis, 0, n);
  return n == 2 ? dx : dx + walked<AxisWalk::pad>(flip(summed.slice(axis, n, period), axis), axis, 1, 1);
}

NDArray of_reflected(const NDArray& dy, const Shape& x_shape, int axis, std::int64_t a, std::int64_t b) {
  const std::int64_t n = x_shape[axis];
  if (n == 1)
    return sum(dy, {axis}, true);
  if (std::max(a, b) >= n)
    return of_periods(dy, x_shape, axis, a, b);
  NDArray dx = unpadded(dy, axis, a, b);
  if (a > 0) {
    const NDArray mirrored = dx.slice(axis, 1, a + 1) + flip(dy.slice(axis, 0, a), axis);
    dx = concat({dx.slice(axis, 0, 1), mirrored, dx.slice(axis, a + 1, k_end)}, axis);
  }
  if (b > 0) {
    const NDArray mirrored = dx.slice(axis, -(b + 1), -1) + flip(last_of(dy, axis, b), axis);
    dx = concat({dx.slice(axis, 0, -(b + 1)), mirrored, last_of(dx, axis, 1)}, axis);
  }
  return dx;
}

// Entries that stand `repeats` times, side by side or a whole x apart.
NDArray of_parts(const NDArray& dy, const Shape& shape, int axis, std::int64_t repeats, bool side_by_side) {
  const detail::AxisLayout at = detail::axis_layout(shape, axis);
  if (at.n == 1)
    return sum(dy, {axis}, true);
  Shape parts = side_by_side ? Shape{at.outer * at.n, repeats, at.inner} : Shape{at.outer, repeats, at.n * at.inner};
  if (axis == 0 && !side_by_side && repeats > 0)
    parts[2] = -1;
  else
    parts = detail::with_open_rows(parts);
  return sum(dy.reshape(parts), {1}).reshape(detail::with_open_rows(shape));
}

// By as much as the roll went, where that is a number; of the lowest there is none.
NDArray rolled_back(const NDArray& dy, int axis, std::int64_t n, std::int64_t shift) {
  return walked<AxisWalk::roll>(dy, axis, shift == std::numeric_limits<std::int64_t>::min() ? -(shift % n) : -shift, 0);
}

// A call's result is an array of its own, also where nothing moved.
NDArray apart(const NDArray& made, const NDArray& x, SourceLocation site) {
  return made.same(x) ? made.copy(site) : made;
}

// -- the operators ------------------------------------------------------------------------------------------------
template <AxisWalk row>
Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& given) {
  using Row = WalkRow<row>;
  const auto& attributes = given.as<WalkAttributes<row>>();
  ArraySpec spec = inputs[0];
  if (!detail::given_axis(attributes.axis))
    return {spec};
  const int axis = detail::axis_of<WalkAttributes<row>>(given);
  std::int64_t& extent = spec.shape[axis];
  const auto check = [](std::string_view name, std::int64_t value) {
    require<ValueError>(name == "shift" || name == "none" || value >= 0, [&] {
      return message(Row::name, ": ", name, " is ", value, ", which is negative");
    });
  };
  check(Row::first, attributes.a);
  check(Row::second, attributes.b);
  const std::int64_t n = extent;
  __extension__ using Wide = __int128;
  const Wide entries = Row::template extent<Wide>(n, attributes.a, attributes.b);
  require<ShapeError>(entries <= std::numeric_limits<std::int64_t>::max(), [&] {
    const std::string second = Row::second == "none" ? std::string() : message(" and ", Row::second, " ", attributes.b);
    return message(
        Row::name,
        ": axis ",
        axis,
        " of shape ",
        inputs[0].shape,
        " with ",
        Row::first,
        " ",
        attributes.a,
        second,
        " would have more than 2^63 - 1 entries");
  });
  extent = static_cast<std::int64_t>(entries);
  require<ValueError>(n > 0 || extent == 0 || Row::holes, [&] {
    return message(Row::name, ": axis ", axis, " of shape ", inputs[0].shape, " has no entries");
  });
  return {spec};
}

template <AxisWalk row>
detail::WalkNumbers numbers_of(const KernelCall& call) {
  const auto& attributes = call.attributes.as<WalkAttributes<row>>();
  const int axis = detail::axis_of<WalkAttributes<row>>(call.attributes);
  detail::WalkNumbers numbers{axis, attributes.a, attributes.b};
  if constexpr (WalkRow<row>::first == "shift") {
    // Kernels count in 32 bits where all numbers are small.
    if (const std::int64_t n = call.inputs[0].shape[axis]; n > 0)
      numbers.a %= n;
  }
  if constexpr (WalkRow<row>::holes) {
    by_any_dtype(call.inputs[0].dtype, [&]<class T>() {
      const Scalar value = attributes.value;
      const T element = value.kind() == Scalar::Kind::real ? detail::convert<T>(value.as_double())
                                                           : detail::convert<T>(value.as_int64());
      std::memcpy(&numbers.value, &element, sizeof element);
    });
  }
  return numbers;
}

template <AxisWalk row>
bool normalise(const RawCall& call, NormalCall& normal) {
  if constexpr (WalkRow<row>::holes)
    detail::check_fits(WalkRow<row>::name, call.attributes.as<WalkAttributes<row>>().value, call.inputs[0].dtype());
  if constexpr (row == AxisWalk::repeat)  // which gives more entries than x's shape has
    return detail::normalise_axis_or_all<WalkAttributes<row>>(call, normal);
  else if constexpr (detail::k_takes_all<row>)
    return detail::given_axis(call.attributes.as<WalkAttributes<row>>().axis) &&
           detail::normalise_axis<WalkAttributes<row>>(call, normal);
  else
    return detail::normalise_axis<WalkAttributes<row>>(call, normal);
}

// Arrays of all elements as one row where no axis is named.
template <AxisWalk row>
void run(const KernelCall& call, void (*kernel)(AxisWalk, const KernelCall&, const detail::WalkNumbers&)) {
  if (detail::given_axis(call.attributes.as<WalkAttributes<row>>().axis))
    return kernel(row, call, numbers_of<row>(call));
  TensorView from = call.inputs[0], to = call.outputs[0];
  from.shape = to.shape = {to.size};
  from.strides = to.strides = {1};
  const KernelCall flat{call.op, call.queue, {&from, 1}, {&to, 1}, call.attributes, call.random};
  kernel(row, flat, numbers_of<row>(flat));
}

template <AxisWalk row>
void cpu_kernel(const KernelCall& call) {
  run<row>(call, detail::walk_cpu);
}
#if SLUICE_CUDA
template <AxisWalk row>
void gpu_kernel(const KernelCall& call) {
  run<row>(call, detail::walk_gpu);
}
#endif

template <AxisWalk row>
struct WalkGradient;
#define WALK(row, first, second, holes, extent, from, derivative, ...) \
  template <>                                                          \
  struct WalkGradient<AxisWalk::row> {                                 \
    static NDArray of(                                                 \
        const NDArray& dy,                                             \
        [[maybe_unused]] const Shape& x_shape,                         \
        [[maybe_unused]] int axis,                                     \
        [[maybe_unused]] std::int64_t n,                               \
        [[maybe_unused]] std::int64_t a,                               \
        [[maybe_unused]] std::int64_t b) {                             \
      return derivative;                                               \
    }                                                                  \
  };
#include <sluice/operator/walk/walk.def>
#undef WALK

template <AxisWalk row>
Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const auto& attributes = call.attributes.as<WalkAttributes<row>>();
  const Shape& shape = call.input_specs[0].shape;
  const int axis = detail::axis_of<WalkAttributes<row>>(call.attributes);
  if (!detail::given_axis(attributes.axis)) {
    const Shape all{shape.size()};
    const NDArray dx = WalkGradient<row>::of(dy.reshape({-1}), all, axis, all[0], attributes.a, attributes.b);
    return {dx.reshape(detail::with_open_rows(shape))};
  }
  // Of dy, so that it is on the tape where dy is.
  if (shape.size() == 0)
    return {shape[axis] == 0 ? dy.slice(axis, 0, 0) : dy.reshape(detail::with_open_rows(shape))};
  return {WalkGradient<row>::of(dy, shape, axis, shape[axis], attributes.a, attributes.b)};
}

template <AxisWalk row>
constinit const Operator Moves<row>::op{
    .name = WalkRow<row>::name,
    .attributes = &attribute_type<WalkAttributes<row>>,
    .normalise = normalise<row>,
    .infer = infer<row>,
    .kernels = {on_cpu(cpu_kernel<row>), on_gpu(SLUICE_GPU_KERNEL(gpu_kernel<row>))},
    .gradient = gradient<row>,
};

}  // namespace

NDArray pad(
    const NDArray& x,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& width,
    PadMode mode,
    Scalar value,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const int ndim = detail::object_of(x, "pad").shape.ndim();
    require<ShapeError>(width.size() == 1 || static_cast<int>(width.size()) == ndim, [&] {
      return message("pad: ", width.size(), " pairs of widths for shape ", x.shape());
    });
    NDArray padded = x;
    for (int axis = 0; axis < ndim; ++axis) {
      const auto& [before, after] = width[width.size() == 1 ? 0 : static_cast<std::size_t>(axis)];
      if (before == 0 && after == 0)
        continue;
      if (mode == PadMode::edge) {
        padded = walked<AxisWalk::pad_edge>(padded, axis, before, after, site);
      } else if (mode == PadMode::reflect) {
        padded = walked<AxisWalk::pad_reflect>(padded, axis, before, after, site);
      } else {
        WalkAttributes<AxisWalk::pad> attributes;
        attributes.axis = axis;
        attributes.a = before;
        attributes.b = after;
        attributes.value = value;
        padded = invoke_one(Moves<AxisWalk::pad>::op, {padded}, Attributes::of(attributes), site);
      }
    }
    return apart(padded, x, site);
  });
}

NDArray roll(const NDArray& x, std::int64_t shift, std::optional<int> axis, SourceLocation site) {
  return walked<AxisWalk::roll>(x, axis, shift, 0, site);
}

NDArray roll(
    const NDArray& x, const std::vector<std::int64_t>& shifts, const std::vector<int>& axes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "roll");
    require<ValueError>(shifts.size() == axes.size(), [&] {
      return message("roll: ", shifts.size(), " shifts along ", axes.size(), " axes");
    });
    NDArray rolled = x;
    for (std::size_t i = 0; i < axes.size(); ++i)
      rolled = walked<AxisWalk::roll>(rolled, axes[i], shifts[i], 0, site);
    return apart(rolled, x, site);
  });
}

NDArray flip(const NDArray& x, const std::vector<int>& axes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    if (axes.empty())  // of all axes is of all elements
      return walked<AxisWalk::flip>(x, std::nullopt, 0, 0, site);
    NDArray flipped = x;
    for (const int axis : axes)
      flipped = walked<AxisWalk::flip>(flipped, axis, 0, 0, site);
    return flipped;
  });
}

NDArray tile(const NDArray& x, const std::vector<std::int64_t>& repeats, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const int ndim = detail::object_of(x, "tile").shape.ndim(), given = static_cast<int>(repeats.size());
    NDArray expanded = x;
    for (int missing = ndim; missing < given; ++missing)
      expanded = expanded.expand_dims(0, site);
    NDArray tiled = expanded;
    for (int i = 0; i < given; ++i) {
      if (const std::int64_t times = repeats[static_cast<std::size_t>(i)]; times != 1)
        tiled = walked<AxisWalk::tile>(tiled, i - given, times, 0, site);
    }
    return apart(tiled, expanded, site);
  });
}

NDArray repeat(const NDArray& x, std::int64_t repeats, std::optional<int> axis, SourceLocation site) {
  return walked<AxisWalk::repeat>(x, axis, repeats, 0, site);
}

detail::OperatorList detail::walk_operators() noexcept {
  static constexpr const Operator* list[] = {
#define WALK(row, ...) &Moves<AxisWalk::row>::op,
#include <sluice/operator/walk/walk.def>
#undef WALK
  };
  return list;
}

}  // namespace sluice
