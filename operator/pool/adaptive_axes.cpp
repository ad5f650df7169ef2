// Adaptive pools of one axis and of three, by those of planes: windows fall apart along their axes.
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/one_axis.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/detail/volume.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/volume.h>
#include <sluice/operator/sides.h>

namespace sluice {

namespace {

using Pool = NDArray (*)(const NDArray& x, const Shape& output_size, SourceLocation site);

struct RowAttributes {
  std::int64_t output_size = 1;

  template <class V>
  void visit(V&& v) {
    v.field("output_size", output_size);
  }
};

struct VolumeAttributes {
  Shape output_size{1, 1, 1};

  template <class V>
  void visit(V&& v) {
    v.field("output_size", output_size);
  }
};

void check_not_empty(const char* op, const Shape& x) {
  for (int axis = 2; axis < x.ndim(); ++axis)
    require<ShapeError>(x[axis] > 0, [&] { return message(op, ": x ", x, " has nothing along axis ", axis); });
}

// -- One axis ---------------------------------------------------------------------------------------------------------
Specs infer_row(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t size = attributes.as<RowAttributes>().output_size;
  detail::row_shape(op.name, "x", inputs[0].shape);
  require<ValueError>(size >= 1 && size <= detail::k_most_of_window, [&] {
    return message(op.name, ": output_size must be a number >= 1 and < 2^31, not ", size);
  });
  detail::check_floating(op.name, inputs[0]);
  check_not_empty(op.name, inputs[0].shape);
  ArraySpec y = inputs[0];
  y.shape[2] = size;
  return {y};
}

template <const Operator& op, Pool pool>
Arrays pool_row(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_row(op, detail::specs_of(inputs), attributes);
  const Shape size{1, attributes.as<RowAttributes>().output_size};
  return {pool(inputs[0].expand_dims(2, site), size, site).squeeze(2, site)};
}

// -- Three axes -------------------------------------------------------------------------------------------------------
Specs infer_volume(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Shape& size = attributes.as<VolumeAttributes>().output_size;
  detail::plane_shape(op.name, "x", inputs[0].shape);
  detail::check_triple(op.name, size, 1, "output_size");
  detail::check_floating(op.name, inputs[0]);
  check_not_empty(op.name, inputs[0].shape);
  ArraySpec y = inputs[0];
  for (int axis = 0; axis < 3; ++axis)
    y.shape[axis + 2] = size[axis];
  y.shape.size();  // says that it fits
  return {y};
}

// Windows of planes, (N, C * D, H, W), then of depths, (N, C, D, H * W).
template <const Operator& op, Pool pool>
Arrays pool_volume(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ArraySpec y = infer_volume(op, detail::specs_of(inputs), attributes)[0];
  if (detail::is_empty_beside_batch(y.shape))
    return {detail::zeros_from(inputs, {}, y.shape, site)};
  const Shape size = attributes.as<VolumeAttributes>().output_size, x = detail::extents_beside_batch(inputs[0]);
  const std::int64_t plane = size[1] * size[2];
  const NDArray wide = inputs[0].astype(detail::wide_type(y.dtype), site);  // means of means
  const NDArray planes = pool(wide.reshape({-1, x[1] * x[2], x[3], x[4]}, site), detail::of_plane(size), site);
  const NDArray depths = pool(planes.reshape({-1, x[1], x[2], plane}, site), {size[0], plane}, site);
  return {depths.reshape({-1, x[1], size[0], size[1], size[2]}, site).astype(y.dtype, site)};
}

template <class A>
constexpr Operator adaptive(const char* name, Infer infer, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<A>;
  op.infer = infer;
  op.composition = composition;
  return op;
}

}  // namespace

namespace detail {

constinit const Operator k_adaptive_avg_pool1d =
    adaptive<RowAttributes>("adaptive_avg_pool1d", infer_row, pool_row<k_adaptive_avg_pool1d, adaptive_avg_pool2d>);
constinit const Operator k_adaptive_max_pool1d =
    adaptive<RowAttributes>("adaptive_max_pool1d", infer_row, pool_row<k_adaptive_max_pool1d, adaptive_max_pool2d>);
constinit const Operator k_adaptive_avg_pool3d = adaptive<VolumeAttributes>(
    "adaptive_avg_pool3d", infer_volume, pool_volume<k_adaptive_avg_pool3d, adaptive_avg_pool2d>);
constinit const Operator k_adaptive_max_pool3d = adaptive<VolumeAttributes>(
    "adaptive_max_pool3d", infer_volume, pool_volume<k_adaptive_max_pool3d, adaptive_max_pool2d>);

}  // namespace detail

NDArray adaptive_avg_pool1d(const NDArray& x, std::int64_t output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_avg_pool1d, {x}, Attributes::of(RowAttributes{output_size}), site);
}

NDArray adaptive_max_pool1d(const NDArray& x, std::int64_t output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_max_pool1d, {x}, Attributes::of(RowAttributes{output_size}), site);
}

NDArray adaptive_avg_pool3d(const NDArray& x, const Shape& output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_avg_pool3d, {x}, Attributes::of(VolumeAttributes{output_size}), site);
}

NDArray adaptive_max_pool3d(const NDArray& x, const Shape& output_size, SourceLocation site) {
  return invoke_one(detail::k_adaptive_max_pool3d, {x}, Attributes::of(VolumeAttributes{output_size}), site);
}

}  // namespace sluice
