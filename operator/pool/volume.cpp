#include <cmath>

#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/volume.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/geometry.h>
#include <sluice/operator/pool/pool.h>
#include <sluice/operator/pool/volume.h>

namespace sluice {

namespace {

using detail::PoolAttributes;

struct Pool3DAttributes {
  Shape kernel{2, 2, 2}, stride, pad{0, 0, 0};
  bool ceil_mode = false, count_include_pad = true, global = false;

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("ceil_mode", ceil_mode);
    v.field("count_include_pad", count_include_pad);
    v.field("global", global);
  }
};

/// Windows of planes, then of depths: of images (N, C * D, H, W) and (N, C, D, H * W).
struct TwoPools {
  PoolAttributes planes, depths;
};

TwoPools two_pools(const char* op, const Pool3DAttributes& a) {
  TwoPools made;
  for (PoolAttributes* const of : {&made.planes, &made.depths}) {
    of->ceil_mode = a.ceil_mode;
    of->count_include_pad = a.count_include_pad;
    of->global = a.global;
  }
  if (a.global) {
    made.depths.global = true;
    return made;
  }
  detail::check_triple(op, a.kernel, 1, "kernel");
  const Shape& stride = a.stride.empty() ? a.kernel : a.stride;
  detail::check_triple(op, stride, 1, "stride");
  const detail::VolumePad pad = detail::pad_of_volume(op, a.pad);
  made.planes.kernel = detail::of_plane(a.kernel);
  made.planes.stride = detail::of_plane(stride);
  made.planes.pad = pad.plane;
  made.depths.kernel = {a.kernel[0], 1};
  made.depths.stride = {stride[0], 1};
  made.depths.pad = {pad.depth[0], 0, pad.depth[1], 0};
  return made;
}

/// With an order.
struct LpPool3DAttributes {
  double p = 2;
  Pool3DAttributes window = {};

  template <class V>
  void visit(V&& v) {
    v.field("p", p);
    window.visit(v);
  }
};

Specs infer_windows(const Operator& op, const ArraySpec& x, const Pool3DAttributes& window) {
  require<DTypeError>(
      is_floating(x.dtype), [&] { return message(op.name, ": no kernel for ", x.dtype, " on ", x.device); });
  const TwoPools how = two_pools(op.name, window);
  const Shape planes = detail::plane_shape(op.name, "x", x.shape);
  const Shape y = detail::pooled_shape(planes, detail::pool_geometry(op.name, planes, how.planes));
  const Shape depths{x.shape[0], x.shape[1], x.shape[2], 1};
  const detail::PoolGeometry g = detail::pool_geometry(op.name, depths, how.depths);
  return {{{y[0], y[1], g.out[0], y[2], y[3]}, x.dtype, x.device}};
}

Specs infer_pool(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return infer_windows(op, inputs[0], attributes.as<Pool3DAttributes>());
}

Specs infer_lp(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<LpPool3DAttributes>();
  require<ValueError>(std::isfinite(a.p) && a.p > 0, [&] {
    return message(op.name, ": the order p must be finite and above 0, not ", a.p);
  });
  return infer_windows(op, inputs[0], a.window);
}

// Of depths, not of what lies in a plane of theirs.
PoolAttributes of_depths(PoolAttributes window, std::int64_t depth) {
  if (window.global) {
    window.global = false;
    window.kernel = {depth, 1};
  }
  return window;
}

template <const Operator& op, const Operator& of_images>
Arrays pool(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Specs specs = infer_pool(op, detail::specs_of(inputs), attributes);
  const Shape& y = specs[0].shape;
  const TwoPools how = two_pools(op.name, attributes.as<Pool3DAttributes>());
  const Shape x = detail::extents_beside_batch(inputs[0]);
  if (x[1] == 0)  // without channels depths and planes do not come apart
    return {detail::zeros_from(inputs, {}, y, site)};
  const DType own = inputs[0].dtype();
  const bool rounds = &of_images == &detail::avg_pool2d_op && size_of(own) == 2;  // means of means
  const NDArray wide = rounds ? inputs[0].astype(float32, site) : inputs[0];
  const NDArray planes = wide.reshape({-1, x[1] * x[2], x[3], x[4]}, site);
  const NDArray each = invoke(of_images, {&planes, 1}, Attributes::of(how.planes), site)[0];
  const NDArray depths = each.reshape({-1, x[1], x[2], y[3] * y[4]}, site);
  const Attributes last = Attributes::of(of_depths(how.depths, x[2]));
  const NDArray all = invoke(of_images, {&depths, 1}, last, site)[0];
  return {all.reshape({-1, y[1], y[2], y[3], y[4]}, site).astype(own, site)};
}

PoolOptions options_of(const PoolAttributes& a) {
  return {a.kernel, a.stride, a.pad, a.ceil_mode, a.count_include_pad, a.global};
}

// A norm of norms, in float32 for half types.
Arrays pool_lp(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const ArraySpec y = infer_lp(detail::k_lp_pool3d, detail::specs_of(inputs), attributes)[0];
  if (detail::is_empty_beside_batch(y.shape))
    return {detail::zeros_from(inputs, {}, y.shape, site)};
  const auto& a = attributes.as<LpPool3DAttributes>();
  const TwoPools how = two_pools(detail::k_lp_pool3d.name, a.window);
  const Shape x = detail::extents_beside_batch(inputs[0]);
  const NDArray wide = inputs[0].astype(detail::wide_type(y.dtype), site);
  const NDArray planes = wide.reshape({-1, x[1] * x[2], x[3], x[4]}, site);
  const NDArray each = lp_pool2d(planes, a.p, options_of(how.planes), site);
  const NDArray depths = each.reshape({-1, x[1], x[2], y.shape[3] * y.shape[4]}, site);
  const NDArray all = lp_pool2d(depths, a.p, options_of(of_depths(how.depths, x[2])), site);
  return {all.reshape({-1, y.shape[1], y.shape[2], y.shape[3], y.shape[4]}, site).astype(y.dtype, site)};
}

template <const Operator& op, const Operator& of_images>
constexpr Operator pool_of_volumes(const char* name) {
  Operator made{};
  made.name = name;
  made.attributes = &attribute_type<Pool3DAttributes>;
  made.infer = infer_pool;
  made.composition = pool<op, of_images>;
  return made;
}

NDArray call(const Operator& op, const NDArray& x, const Pool3DOptions& o, SourceLocation site) {
  const Pool3DAttributes how{o.kernel, o.stride, o.pad, o.ceil_mode, o.count_include_pad, o.global};
  return invoke_one(op, {x}, Attributes::of(how), site);
}

}  // namespace

namespace detail {

constinit const Operator k_max_pool3d = pool_of_volumes<k_max_pool3d, max_pool2d_op>("max_pool3d");
constinit const Operator k_avg_pool3d = pool_of_volumes<k_avg_pool3d, avg_pool2d_op>("avg_pool3d");

constinit const Operator k_lp_pool3d{
    .name = "lp_pool3d",
    .attributes = &attribute_type<LpPool3DAttributes>,
    .infer = infer_lp,
    .composition = pool_lp,
};

}  // namespace detail

NDArray max_pool3d(const NDArray& x, const Pool3DOptions& options, SourceLocation site) {
  return call(detail::k_max_pool3d, x, options, site);
}

NDArray avg_pool3d(const NDArray& x, const Pool3DOptions& options, SourceLocation site) {
  return call(detail::k_avg_pool3d, x, options, site);
}

NDArray lp_pool3d(const NDArray& x, double p, const Pool3DOptions& o, SourceLocation site) {
  const Pool3DAttributes window{o.kernel, o.stride, o.pad, o.ceil_mode, o.count_include_pad, o.global};
  return invoke_one(detail::k_lp_pool3d, {x}, Attributes::of(LpPool3DAttributes{p, window}), site);
}

}  // namespace sluice
