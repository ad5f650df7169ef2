#include <span>
#include <vector>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/operands.h>
#include <sluice/operator/conv/row_windows.h>
#include <sluice/operator/conv/volume.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/volume.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>

namespace sluice {

namespace {

using detail::ConvolutionAttributes;
using detail::RowSums;
using detail::RowWindows;

struct Convolution3DAttributes {
  Shape stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;
  bool relu = false;

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("groups", groups);
    v.field("relu", relu);
  }
};

struct Deconvolution3DAttributes {
  Shape stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1}, adj{0, 0, 0};
  std::int64_t groups = 1;

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("adj", adj);
    v.field("groups", groups);
  }
};

// -- Shapes -----------------------------------------------------------------------------------------------------------
template <class A>
void check_triples(const char* op, const A& a) {
  detail::check_triple(op, a.stride, 1, "stride");
  detail::check_triple(op, a.dilation, 1, "dilation");
}

// Windows of depths, of so many taps.
template <class A>
RowWindows depth_windows(const char* op, const A& a, std::int64_t taps) {
  return {taps, a.stride[0], a.dilation[0], detail::pad_of_volume(op, a.pad).depth};
}

// What of a convolution goes on in planes.
ConvolutionAttributes of_planes(const char* op, const Convolution3DAttributes& a) {
  return {
      .stride = detail::of_plane(a.stride),
      .pad = detail::pad_of_volume(op, a.pad).plane,
      .dilation = detail::of_plane(a.dilation),
      .groups = a.groups};
}

Specs infer_volume(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs);
  const auto& a = attributes.as<Convolution3DAttributes>();
  check_triples(op.name, a);
  const ArraySpec &x = inputs[0], &weight = inputs[1];
  const detail::ConvolutionGeometry g = detail::convolution_geometry(
      op.name,
      detail::plane_shape(op.name, "x", x.shape),
      detail::plane_shape(op.name, "weight", weight.shape),
      x.dtype,
      of_planes(op.name, a));
  const RowWindows depth = depth_windows(op.name, a, weight.shape[2]);
  const std::int64_t room = x.shape[2] + depth.pad[0] + depth.pad[1] - depth.dilation * (depth.kernel - 1) - 1;
  require<ShapeError>(depth.kernel >= 1 && room >= 0, [&] {
    return message(
        op.name,
        ": a window of ",
        depth.kernel,
        " planes with dilation ",
        depth.dilation,
        " does not fit into the ",
        x.shape[2],
        " of x ",
        x.shape,
        ", (N, C, D, H, W), with padding ",
        a.pad);
  });
  detail::check_bias(op.name, inputs, g.outputs);
  return {{{g.images, g.outputs, room / depth.stride + 1, g.out[0], g.out[1]}, x.dtype, x.device}};
}

DeconvolutionOptions of_planes(const char* op, const Deconvolution3DAttributes& a) {
  return {
      .stride = detail::of_plane(a.stride),
      .pad = detail::pad_of_volume(op, a.pad).plane,
      .dilation = detail::of_plane(a.dilation),
      .adj = detail::of_plane(a.adj),
      .groups = a.groups};
}

std::int64_t depth_of_result(const char* op, const Shape& x, std::int64_t taps, const Deconvolution3DAttributes& a) {
  const RowWindows depth = depth_windows(op, a, taps);
  require<ValueError>(
      a.adj[0] < a.stride[0], [&] { return message(op, ": adj ", a.adj, " must be smaller than stride ", a.stride); });
  const std::int64_t most = detail::k_most_of_window;
  const bool has_room = x[2] >= 1 && x[2] <= most && taps >= 1 && taps <= most;
  const std::int64_t reach = has_room ? depth.stride * (x[2] - 1) + depth.dilation * (taps - 1) + 1 : 0;
  const std::int64_t rows = reach + a.adj[0] - depth.pad[0] - depth.pad[1];
  require<ShapeError>(has_room && rows >= 1, [&] {
    return message(
        op,
        ": nothing is left of x of shape ",
        x,
        ", (N, C, D, H, W), under a weight of ",
        taps,
        " planes with stride ",
        a.stride,
        " and padding ",
        a.pad);
  });
  return rows;
}

Specs infer_volume_back(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs);
  const auto& a = attributes.as<Deconvolution3DAttributes>();
  check_triples(op.name, a);
  detail::check_triple(op.name, a.adj, 0, "adj");
  const ArraySpec &x = inputs[0], &weight = inputs[1];
  const ArraySpec planes[] = {
      {detail::plane_shape(op.name, "x", x.shape), x.dtype, x.device},
      {detail::plane_shape(op.name, "weight", weight.shape), x.dtype, x.device}};
  const Shape y = detail::deconvolution_shape(op, planes, of_planes(op.name, a));
  detail::check_bias(op.name, inputs, y[1]);
  return {{{y[0], y[1], depth_of_result(op.name, x.shape, weight.shape[2], a), y[2], y[3]}, x.dtype, x.device}};
}

// -- Calls ------------------------------------------------------------------------------------------------------------
NDArray biased(const NDArray& y, std::span<const NDArray> inputs, const Shape& shape, SourceLocation site) {
  if (inputs.size() <= 2)
    return y;
  return add(y, inputs[2].astype(y.dtype(), site).reshape({1, shape[1], 1, 1, 1}, site), site);
}

// Of no channels, rows or planes: the bias alone, of y's shape beside the batch.
NDArray of_nothing(std::span<const NDArray> inputs, const Shape& y, SourceLocation site) {
  return biased(detail::zeros_from(inputs.first(1), inputs.subspan(1, 1), y, site), inputs, y, site);
}

// Windows of depths become images of their own, whose channels are those of x at each tap.
Arrays convolve(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator& op = detail::k_convolution3d;
  const Shape y = infer_volume(op, detail::specs_of(inputs), attributes)[0].shape;
  const auto& a = attributes.as<Convolution3DAttributes>();
  const Shape x = detail::extents_beside_batch(inputs[0]), &w = detail::unseen_shape(inputs[1]);
  if (detail::is_empty_beside_batch(x) || y[1] == 0) {
    const NDArray made = of_nothing(inputs, y, site);
    return {a.relu ? relu(made, site) : made};
  }
  const NDArray rows = inputs[0].reshape({-1, x[1], x[2], x[3] * x[4]}, site);
  const Attributes depth = Attributes::of(depth_windows(op.name, a, w[2]));
  const NDArray windows = invoke_one(detail::k_unfold_rows, {rows}, depth, site);
  Arrays images{
      windows.reshape({-1, x[1] * w[2], x[3], x[4]}, site), inputs[1].reshape({w[0], w[1] * w[2], w[3], w[4]}, site)};
  if (inputs.size() > 2)
    images.push_back(inputs[2]);
  const Operator& of_images = a.relu ? detail::convolution_relu_op : detail::convolution_op;
  const NDArray planes = invoke(of_images, images, Attributes::of(of_planes(op.name, a)), site)[0];
  return {planes.reshape({-1, y[2], y[1], y[3], y[4]}, site).transpose({0, 2, 1, 3, 4}, site)};
}

Arrays spread(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator& op = detail::k_deconvolution3d;
  const Shape y = infer_volume_back(op, detail::specs_of(inputs), attributes)[0].shape;
  const auto& a = attributes.as<Deconvolution3DAttributes>();
  const Shape x = detail::extents_beside_batch(inputs[0]), &w = detail::unseen_shape(inputs[1]);
  if (y[1] == 0)
    return {of_nothing(inputs, y, site)};
  // What planes give is added up once more: half types are not to be rounded in between.
  const DType own = inputs[0].dtype(), wide = detail::wide_type(own);
  const NDArray volume = inputs[0].astype(wide, site).transpose({0, 2, 1, 3, 4}, site);
  const NDArray planes = volume.reshape({-1, x[1], x[3], x[4]}, site);
  const NDArray weight = inputs[1].astype(wide, site).reshape({w[0], w[1] * w[2], w[3], w[4]}, site);
  const NDArray each = deconvolution(planes, weight, {}, of_planes(op.name, a), site);
  const RowSums depth{depth_windows(op.name, a, w[2]), y[2]};
  const NDArray windows = each.reshape({-1, x[2], y[1], w[2], y[3] * y[4]}, site);
  const NDArray sums = invoke_one(detail::k_fold_rows, {windows}, Attributes::of(depth), site);
  const NDArray y_wide = sums.reshape({-1, y[1], y[2], y[3], y[4]}, site);
  return {biased(y_wide, inputs, y, site).astype(own, site)};
}

}  // namespace

namespace detail {

constinit const Operator k_convolution3d{
    .name = "convolution3d",
    .inputs = -1,
    .attributes = &attribute_type<Convolution3DAttributes>,
    .infer = infer_volume,
    .composition = convolve,
};
constinit const Operator k_deconvolution3d{
    .name = "deconvolution3d",
    .inputs = -1,
    .attributes = &attribute_type<Deconvolution3DAttributes>,
    .infer = infer_volume_back,
    .composition = spread,
};

}  // namespace detail

NDArray convolution3d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Convolution3DOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool relu = options.activation == "relu";
    require<ValueError>(relu || options.activation.empty(), [&] {
      return message("convolution3d: activation \"", options.activation, "\" is neither \"\" nor \"relu\"");
    });
    const Convolution3DAttributes how{options.stride, options.pad, options.dilation, options.groups, relu};
    return detail::call_with_bias(detail::k_convolution3d, x, weight, bias, Attributes::of(how), site);
  });
}

NDArray deconvolution3d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Deconvolution3DOptions& options,
    SourceLocation site) {
  const Deconvolution3DAttributes how{options.stride, options.pad, options.dilation, options.adj, options.groups};
  return detail::call_with_bias(detail::k_deconvolution3d, x, weight, bias, Attributes::of(how), site);
}

}  // namespace sluice
