#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/resize/filters.h>
#include <sluice/operator/resize/planes.h>
#include <sluice/operator/resize/resize.h>
#include <sluice/operator/sides.h>

namespace sluice {

namespace {

/// How pixels are mixed; of none of the two modes they are taken as they are.
struct Mixing {
  bool bilinear = false, bicubic = false, align_corners = false, antialias = false;

  bool is_any() const noexcept { return bilinear || bicubic; }
  template <class V>
  void visit(V&& v) {
    v.field("bilinear", bilinear);
    v.field("bicubic", bicubic);
    v.field("align_corners", align_corners);
    v.field("antialias", antialias);
  }
};

struct ResizeAttributes : Mixing {
  Shape size{1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("size", size);
    Mixing::visit(v);
  }
};

struct UpsamplingAttributes : Mixing {
  std::int64_t scale = 2;

  template <class V>
  void visit(V&& v) {
    v.field("scale", scale);
    Mixing::visit(v);
  }
};

Mixing mixing_of(const ResizeOptions& o) {
  return {o.mode == ResizeMode::bilinear, o.mode == ResizeMode::bicubic, o.align_corners, o.antialias};
}

void check(const Operator& op, const ArraySpec& x, const Mixing& how) {
  const Shape& shape = x.shape;
  require<ShapeError>(shape.ndim() == 4 && shape[2] >= 1 && shape[3] >= 1, [&] {
    return message(op.name, ": x must be (N, C, H, W) of at least a pixel, not ", shape);
  });
  const std::int64_t most = detail::k_most_of_window;
  require<ShapeError>(shape[2] <= most && shape[3] <= most, [&] {
    return message(op.name, ": planes of x of shape ", shape, " are too large");
  });
  require<DTypeError>(
      !how.is_any() || is_floating(x.dtype), [&] { return message(op.name, ": mixes floating types, not ", x.dtype); });
  require<ValueError>(
      !how.bilinear || !how.bicubic, [&] { return message(op.name, ": is bilinear or bicubic, not both"); });
  require<ValueError>(how.is_any() || (!how.align_corners && !how.antialias), [&] {
    return message(op.name, ": align_corners and antialias are of bilinear and bicubic");
  });
}

Specs infer_resize(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const auto& how = attributes.as<ResizeAttributes>();
  detail::check_pair(op.name, how.size, 1, "size");
  check(op, x, how);
  return {{{x.shape[0], x.shape[1], how.size[0], how.size[1]}, x.dtype, x.device}};
}

Specs infer_upsampling(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const auto& how = attributes.as<UpsamplingAttributes>();
  require<ValueError>(how.scale >= 1 && how.scale <= detail::k_most_of_window, [&] {
    return message(op.name, ": scale must be >= 1 and < 2^31, not ", how.scale);
  });
  check(op, x, how);
  return {{{x.shape[0], x.shape[1], how.scale * x.shape[2], how.scale * x.shape[3]}, x.dtype, x.device}};
}

NDArray places(std::int64_t count, const NDArray& beside, SourceLocation site) {
  return arange(0, static_cast<double>(count), 1, {.dtype = int64, .device = beside.device()}, site);
}

// One axis, pixel by pixel.
NDArray nearest(const NDArray& x, int axis, std::int64_t in, std::int64_t out, SourceLocation site) {
  const NDArray from = floor_divide(multiply(places(out, x, site), in, site), out, site);
  return take(x, from, axis, IndexMode::raise, site);
}

// One axis, mixed of two neighbours: where they lie is a fraction, `steps` by `unit`, so that nothing is rounded.
NDArray mixed(const NDArray& x, int axis, std::int64_t in, std::int64_t out, bool corners, SourceLocation site) {
  const NDArray i = places(out, x, site);
  const std::int64_t unit = corners ? std::max<std::int64_t>(out - 1, 1) : 2 * out;
  NDArray steps = multiply(i, corners ? in - 1 : 2 * in, site);
  if (!corners)
    steps = maximum(add(steps, in - out, site), 0, site);
  const NDArray lower = floor_divide(steps, unit, site), upper = minimum(add(lower, 1, site), in - 1, site);
  const DType dtype = detail::wide_type(x.dtype());
  NDArray part = divide(mod(steps, unit, site).astype(float64, site), static_cast<double>(unit), site);
  part = part.astype(dtype, site).reshape(axis == 2 ? Shape{-1, 1} : Shape{-1}, site);
  const NDArray a = take(x, lower, axis, IndexMode::raise, site), b = take(x, upper, axis, IndexMode::raise, site);
  return add(multiply(a, subtract(1, part, site), site), multiply(b, part, site), site);
}

NDArray resized_axis(const NDArray& x, const detail::ResizedAxis& of, const Mixing& how, SourceLocation site) {
  if (of.in == of.out)
    return x;
  if (how.antialias)
    return detail::mixed_by_filter(x, of, how.bicubic, site);
  if (how.bicubic)
    return detail::mixed_by_cubic(x, of, site);
  return how.bilinear ? mixed(x, of.axis, of.in, of.out, of.corners, site) : nearest(x, of.axis, of.in, of.out, site);
}

NDArray resized_by_axes(const NDArray& x, const Shape& size, const Mixing& how, SourceLocation site) {
  const Shape extents = detail::extents_beside_batch(x);
  NDArray y = x;
  for (int axis = 2; axis < 4; ++axis)
    y = resized_axis(y, {axis, extents[axis], size[axis - 2], how.align_corners}, how, site);
  return y.same(x) ? x.copy(site) : y.astype(x.dtype(), site);  // never x itself: the result may be written
}

NDArray resized(const NDArray& x, const Shape& size, const Mixing& how, SourceLocation site) {
  const PlanesAttributes planes{size, how.bilinear, how.bicubic, how.align_corners, how.antialias};
  return invoke_one(detail::k_resize_planes, {x}, Attributes::of(planes), site);
}

Arrays resize(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_resize(detail::k_resize2d, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<ResizeAttributes>();
  return {resized(inputs[0], how.size, how, site)};
}

Arrays upsample(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_upsampling(detail::k_upsampling, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<UpsamplingAttributes>();
  const NDArray& x = inputs[0];
  const Shape extents = detail::extents_beside_batch(x);
  return {resized(x, {how.scale * extents[2], how.scale * extents[3]}, how, site)};
}

// -- Boxes ------------------------------------------------------------------------------------------------------------
struct BoxAttributes {
  bool center = false;

  template <class V>
  void visit(V&& v) {
    v.field("center", center);
  }
};

Specs infer_boxes(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec &a = inputs[0], &b = inputs[1];
  require<DTypeError>(is_floating(a.dtype) && is_floating(b.dtype), [&] {
    return message(op.name, ": takes floating types, not ", a.dtype, " and ", b.dtype);
  });
  const auto is_boxes = [](const Shape& shape) { return !shape.empty() && shape.back() == 4; };
  require<ShapeError>(is_boxes(a.shape) && is_boxes(b.shape), [&] {
    return message(op.name, ": boxes are four numbers each, (.., 4), not ", a.shape, " and ", b.shape);
  });
  const int axes = a.shape.ndim() + b.shape.ndim() - 2;
  require<ShapeError>(axes <= k_max_ndim, [&] {
    return message(
        op.name, ": overlaps of ", a.shape, " and ", b.shape, " have ", axes, " axes, more than the ", k_max_ndim);
  });
  Shape shape = a.shape;
  shape.erase(shape.ndim() - 1);
  for (int axis = 0; axis + 1 < b.shape.ndim(); ++axis)
    shape.push_back(b.shape[axis]);
  return {{shape, promote(a.dtype, b.dtype), a.device}};
}

/// The sides of boxes along one axis, and how long they are.
struct Sides1D {
  NDArray low, high, length;
};

// With so many axes behind, to stand beside other boxes.
Sides1D sides_of(const NDArray& boxes, int axis, int behind, bool center, SourceLocation site) {
  const int last = detail::unseen_shape(boxes).ndim() - 1;
  const auto number = [&](int i) {
    NDArray x = boxes.slice(last, i, i + 1, 1, site).squeeze(last, site);
    for (int made = 0; made < behind; ++made)
      x = x.expand_dims(last + made, site);
    return x;
  };
  Sides1D sides{number(axis), number(axis + 2), {}};
  if (center) {
    const NDArray half = multiply(sides.high, 0.5, site), middle = sides.low;
    sides = {subtract(middle, half, site), add(middle, half, site), {}};
  }
  sides.length = maximum(subtract(sides.high, sides.low, site), 0, site);
  return sides;
}

Arrays intersect(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const DType dtype = infer_boxes(detail::k_box_iou, detail::specs_of(inputs), attributes)[0].dtype;
  const bool center = attributes.as<BoxAttributes>().center;
  const DType wide = detail::wide_type(dtype);
  const NDArray a = inputs[0].astype(wide, site), b = inputs[1].astype(wide, site);
  const int of_b_alone = detail::unseen_shape(b).ndim() - 1;
  NDArray shared, of_a, of_b;
  for (const int axis : {0, 1}) {
    const Sides1D p = sides_of(a, axis, of_b_alone, center, site), q = sides_of(b, axis, 0, center, site);
    const NDArray both = maximum(subtract(minimum(p.high, q.high, site), maximum(p.low, q.low, site), site), 0, site);
    shared = axis == 0 ? both : multiply(shared, both, site);
    of_a = axis == 0 ? p.length : multiply(of_a, p.length, site);
    of_b = axis == 0 ? q.length : multiply(of_b, q.length, site);
  }
  const NDArray covered = subtract(add(of_a, of_b, site), shared, site), none = equal(covered, 0, site);
  return {where(none, 0, divide(shared, where(none, 1, covered, site), site), site).astype(dtype, site)};
}

}  // namespace

namespace detail {

constinit const Operator k_resize2d{
    .name = "resize2d",
    .attributes = &attribute_type<ResizeAttributes>,
    .infer = infer_resize,
    .composition = resize,
};
constinit const Operator k_upsampling{
    .name = "upsampling",
    .attributes = &attribute_type<UpsamplingAttributes>,
    .infer = infer_upsampling,
    .composition = upsample,
};
constinit const Operator k_box_iou{
    .name = "box_iou",
    .inputs = 2,
    .attributes = &attribute_type<BoxAttributes>,
    .infer = infer_boxes,
    .composition = intersect,
};

NDArray resized_by_takes(const NDArray& x, const PlanesAttributes& how, SourceLocation site) {
  return resized_by_axes(x, how.size, {how.bilinear, how.bicubic, how.align_corners, how.antialias}, site);
}

OperatorList resize_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_resize2d, &k_upsampling, &k_resize_planes, &k_resize_planes_backward, &k_box_iou};
  return list;
}

}  // namespace detail

NDArray resize2d(const NDArray& x, const Shape& size, const ResizeOptions& options, SourceLocation site) {
  const ResizeAttributes how{mixing_of(options), size};
  return invoke_one(detail::k_resize2d, {x}, Attributes::of(how), site);
}

NDArray upsampling(const NDArray& x, std::int64_t scale, const ResizeOptions& options, SourceLocation site) {
  const UpsamplingAttributes how{mixing_of(options), scale};
  return invoke_one(detail::k_upsampling, {x}, Attributes::of(how), site);
}

NDArray box_iou(const NDArray& a, const NDArray& b, BoxFormat format, SourceLocation site) {
  return invoke_one(detail::k_box_iou, {a, b}, Attributes::of(BoxAttributes{format == BoxFormat::center}), site);
}

}  // namespace sluice
