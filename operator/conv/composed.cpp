#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/operands.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/one_axis.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice {

namespace {

using detail::ConvolutionAttributes;

// -- Attributes -------------------------------------------------------------------------------------------------------
struct RowConvolutionAttributes {
  std::int64_t stride = 1;
  Shape pad{0};
  std::int64_t dilation = 1, groups = 1;
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

struct DeconvolutionAttributes {
  Shape stride{1, 1}, pad{0, 0}, dilation{1, 1}, adj{0, 0};
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

struct RowDeconvolutionAttributes {
  std::int64_t stride = 1;
  Shape pad{0};
  std::int64_t dilation = 1, adj = 0, groups = 1;

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("adj", adj);
    v.field("groups", groups);
  }
};

ConvolutionAttributes as_image(const char* op, const RowConvolutionAttributes& a) {
  return {
      .stride = {1, a.stride}, .pad = detail::pad_of_row(op, a.pad), .dilation = {1, a.dilation}, .groups = a.groups};
}

DeconvolutionAttributes as_image(const char* op, const RowDeconvolutionAttributes& a) {
  return {
      .stride = {1, a.stride},
      .pad = detail::pad_of_row(op, a.pad),
      .dilation = {1, a.dilation},
      .adj = {0, a.adj},
      .groups = a.groups};
}

// -- Shapes -----------------------------------------------------------------------------------------------------------
Specs infer_row(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs);
  const ArraySpec& x = inputs[0];
  const detail::ConvolutionGeometry g = detail::convolution_geometry(
      op.name,
      detail::row_shape(op.name, "x", x.shape),
      detail::row_shape(op.name, "weight", inputs[1].shape),
      x.dtype,
      as_image(op.name, attributes.as<RowConvolutionAttributes>()));
  detail::check_bias(op.name, inputs, g.outputs);
  return {{{g.images, g.outputs, g.out[1]}, x.dtype, x.device}};
}

void check_channels(const char* op, const Shape& x, const Shape& weight, std::int64_t groups) {
  require<ShapeError>(x.ndim() == 4, [&] {
    return message(
        op, ": x must be (N, C, H, W), not ", x, x.ndim() == 3 ? "; expand_dims(0) makes one image a batch" : "");
  });
  require<ShapeError>(
      weight.ndim() == 4, [&] { return message(op, ": weight must be (C, O / groups, KH, KW), not ", weight); });
  require<ValueError>(groups >= 1, [&] { return message(op, ": groups must be at least 1, not ", groups); });
  require<ShapeError>(x[1] >= 1 && x[1] % groups == 0 && x[1] == weight[0], [&] {
    return message(
        op,
        ": x of shape ",
        x,
        ", (N, C, H, W), does not fit a weight of shape ",
        weight,
        ", (C, O / groups, KH, KW), in ",
        groups,
        " groups");
  });
}

// What a convolution with these attributes makes x of.
Shape shape_before(const char* op, const Shape& x, const Shape& weight, const DeconvolutionAttributes& a) {
  detail::check_pair(op, a.stride, 1, "stride");
  detail::check_pair(op, a.dilation, 1, "dilation");
  detail::check_pair(op, a.adj, 0, "adj");
  const detail::Sides sides = detail::sides_of(op, a.pad);
  check_channels(op, x, weight, a.groups);
  Shape y{x[0], weight[1] * a.groups, 0, 0};
  for (int axis = 0; axis < 2; ++axis) {
    require<ValueError>(a.adj[axis] < a.stride[axis], [&] {
      return message(op, ": adj ", a.adj, " must be smaller than stride ", a.stride);
    });
    const std::int64_t in = x[axis + 2], kernel = weight[axis + 2], most = detail::k_most_of_window;
    const bool has_room = in >= 1 && in <= most && kernel >= 1 && kernel <= most;
    const std::int64_t reach = has_room ? a.dilation[axis] * (kernel - 1) + 1 : 0;
    y[axis + 2] = has_room ? a.stride[axis] * (in - 1) + reach + a.adj[axis] - sides.begin[axis] - sides.end[axis] : 0;
    require<ShapeError>(y[axis + 2] >= 1, [&] {
      return message(
          op,
          ": nothing is left of x of shape ",
          x,
          ", (N, C, H, W), under a weight of shape ",
          weight,
          " with stride ",
          a.stride,
          " and padding ",
          a.pad);
    });
  }
  return y;
}

Specs infer_image(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs);
  const ArraySpec& x = inputs[0];
  const Shape y = shape_before(op.name, x.shape, inputs[1].shape, attributes.as<DeconvolutionAttributes>());
  detail::check_bias(op.name, inputs, y[1]);
  return {{y, x.dtype, x.device}};
}

Specs infer_row_back(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands(op.name, inputs);
  const ArraySpec& x = inputs[0];
  const Shape y = shape_before(
      op.name,
      detail::row_shape(op.name, "x", x.shape),
      detail::row_shape(op.name, "weight", inputs[1].shape),
      as_image(op.name, attributes.as<RowDeconvolutionAttributes>()));
  detail::check_bias(op.name, inputs, y[1]);
  return {{{y[0], y[1], y[3]}, x.dtype, x.device}};
}

// -- Calls ------------------------------------------------------------------------------------------------------------
Arrays convolve_row(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_row(detail::k_convolution1d, detail::specs_of(inputs), attributes);
  const auto& how = attributes.as<RowConvolutionAttributes>();
  Arrays images{inputs[0].expand_dims(2, site), inputs[1].expand_dims(2, site)};
  if (inputs.size() > 2)
    images.push_back(inputs[2]);
  const Operator& op = how.relu ? detail::convolution_relu_op : detail::convolution_op;
  const Attributes settings = Attributes::of(as_image(detail::k_convolution1d.name, how));
  return {invoke(op, images, settings, site)[0].squeeze(2, site)};
}

// An array of the result's shape for who looks at nothing else: in a trace a view of x, whose batch it has.
NDArray like_result(const NDArray& x, const Shape& y, SourceLocation site) {
  if (detail::sink_here() == nullptr)
    return shape_only({y, x.dtype(), x.device()});
  NDArray corner = x.detach();
  for (int axis = 1; axis < 4; ++axis)
    corner = corner.slice(axis, 0, 1, 1, site);
  return corner.broadcast_to({-1, y[1], y[2], y[3]}, site);
}

Arrays spread(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const NDArray &x = inputs[0], &weight = inputs[1];
  const Shape y = infer_image(detail::k_deconvolution, detail::specs_of(inputs), attributes)[0].shape;
  detail::extents_beside_batch(x);
  const auto& a = attributes.as<DeconvolutionAttributes>();
  const ConvolutionAttributes how{.stride = a.stride, .pad = a.pad, .dilation = a.dilation, .groups = a.groups};
  const NDArray like = like_result(x, y, site);
  const NDArray sums = invoke_one(detail::convolution_backward_data_op, {x, weight, like}, Attributes::of(how), site);
  return {inputs.size() > 2 ? add(sums, inputs[2].reshape({1, y[1], 1, 1}, site), site) : sums};
}

Arrays spread_row(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_row_back(detail::k_deconvolution1d, detail::specs_of(inputs), attributes);
  Arrays images{inputs[0].expand_dims(2, site), inputs[1].expand_dims(2, site)};
  if (inputs.size() > 2)
    images.push_back(inputs[2]);
  const char* const op = detail::k_deconvolution1d.name;
  const Attributes how = Attributes::of(as_image(op, attributes.as<RowDeconvolutionAttributes>()));
  return {spread(images, how, site)[0].squeeze(2, site)};
}

template <class A>
constexpr Operator composed(const char* name, Infer infer, Composition composition) {
  Operator op{};
  op.name = name;
  op.inputs = -1;
  op.attributes = &attribute_type<A>;
  op.infer = infer;
  op.composition = composition;
  return op;
}

}  // namespace

namespace detail {

Shape deconvolution_shape(const Operator& op, std::span<const ArraySpec> inputs, const DeconvolutionOptions& o) {
  return shape_before(op.name, inputs[0].shape, inputs[1].shape, {o.stride, o.pad, o.dilation, o.adj, o.groups});
}

constinit const Operator k_convolution1d = composed<RowConvolutionAttributes>("convolution1d", infer_row, convolve_row);
constinit const Operator k_deconvolution = composed<DeconvolutionAttributes>("deconvolution", infer_image, spread);
constinit const Operator k_deconvolution1d =
    composed<RowDeconvolutionAttributes>("deconvolution1d", infer_row_back, spread_row);

}  // namespace detail

NDArray convolution1d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Convolution1DOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool relu = options.activation == "relu";
    require<ValueError>(relu || options.activation.empty(), [&] {
      return message("convolution1d: activation \"", options.activation, "\" is neither \"\" nor \"relu\"");
    });
    const RowConvolutionAttributes how{options.stride, options.pad, options.dilation, options.groups, relu};
    return detail::call_with_bias(detail::k_convolution1d, x, weight, bias, Attributes::of(how), site);
  });
}

NDArray deconvolution(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const DeconvolutionOptions& options,
    SourceLocation site) {
  const DeconvolutionAttributes how{options.stride, options.pad, options.dilation, options.adj, options.groups};
  return detail::call_with_bias(detail::k_deconvolution, x, weight, bias, Attributes::of(how), site);
}

NDArray deconvolution1d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Deconvolution1DOptions& options,
    SourceLocation site) {
  const RowDeconvolutionAttributes how{options.stride, options.pad, options.dilation, options.adj, options.groups};
  return detail::call_with_bias(detail::k_deconvolution1d, x, weight, bias, Attributes::of(how), site);
}

}  // namespace sluice
