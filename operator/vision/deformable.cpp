#include <sluice/operator/conv/passes.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/vision/tap_places.h>

namespace sluice {

namespace {

struct DeformableAttributes {
  Shape stride{1, 1}, pad{0, 0}, dilation{1, 1};
  std::int64_t groups = 1, deformable_groups = 1;
  bool masked = false;  // the third input is a mask

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("groups", groups);
    v.field("deformable_groups", deformable_groups);
    v.field("masked", masked);
  }
};

// x, offset, maybe mask, weight, maybe bias.
struct Operands {
  std::size_t weight, bias;  // bias: behind the last where there is none
};

Operands operands_of(const char* op, std::size_t inputs, const DeformableAttributes& a) {
  const std::size_t weight = a.masked ? 3 : 2;
  require<ValueError>(inputs == weight + 1 || inputs == weight + 2, [&] {
    return message(
        op, ": takes x, offset, ", a.masked ? "mask, " : "", "weight and maybe a bias, was given ", inputs, " inputs");
  });
  return {weight, weight + 1};
}

detail::ConvolutionGeometry geometry_of(
    const char* op, const Shape& x, const Shape& weight, DType dtype, const DeformableAttributes& a) {
  return detail::convolution_geometry(
      op, x, weight, dtype, {.stride = a.stride, .pad = a.pad, .dilation = a.dilation, .groups = a.groups});
}

Specs infer_deformable(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<DeformableAttributes>();
  const Operands at = operands_of(op.name, inputs.size(), a);
  detail::check_convolution_types(op.name, inputs);
  const ArraySpec& x = inputs[0];
  const Shape& weight = inputs[at.weight].shape;
  const detail::ConvolutionGeometry g = geometry_of(op.name, x.shape, weight, x.dtype, a);
  require<ShapeError>(a.deformable_groups >= 1 && g.inputs % a.deformable_groups == 0, [&] {
    return message(
        op.name,
        ": ",
        a.deformable_groups,
        " groups of offsets do not divide the ",
        g.inputs,
        " channels of ",
        x.shape);
  });
  const std::int64_t samples = a.deformable_groups * g.kernel[0] * g.kernel[1];
  const Shape offset{g.images, 2 * samples, g.out[0], g.out[1]}, mask{g.images, samples, g.out[0], g.out[1]};
  require<ShapeError>(inputs[1].shape == offset && (!a.masked || inputs[2].shape == mask), [&] {
    return message(
        op.name,
        ": offsets are ",
        offset,
        " and a mask ",
        mask,
        ", not ",
        inputs[1].shape,
        a.masked ? message(" and ", inputs[2].shape) : std::string());
  });
  require<ShapeError>(at.bias == inputs.size() || inputs[at.bias].shape == Shape{g.outputs}, [&] {
    return message(
        op.name,
        ": weight of shape ",
        weight,
        " needs a bias of shape (",
        g.outputs,
        ",), not ",
        inputs[at.bias].shape);
  });
  return {{g.y_shape(), x.dtype, x.device}};
}

Arrays convolve(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Operator& op = detail::k_deformable_convolution;
  infer_deformable(op, detail::specs_of(inputs), attributes);
  const auto& a = attributes.as<DeformableAttributes>();
  const Operands at = operands_of(op.name, inputs.size(), a);
  const NDArray &x = inputs[0], &weight = inputs[at.weight];
  Shape extents = detail::extents_beside_batch(x);
  extents[0] = 1;
  const detail::ConvolutionGeometry g = geometry_of(op.name, extents, detail::unseen_shape(weight), x.dtype(), a);
  const auto biased = [&](const NDArray& y) {
    return at.bias < inputs.size() ? add(y, inputs[at.bias].reshape({1, g.outputs, 1, 1}, site), site) : y;
  };
  if (detail::is_empty_beside_batch(extents) || g.outputs == 0)
    return {biased(detail::zeros_from(inputs.first(at.weight), inputs.subspan(at.weight, 1), g.y_shape(), site))};
  const DType wide = detail::wide_type(x.dtype());
  const std::int64_t taps = g.kernel[0] * g.kernel[1], points = g.out_plane();
  const TapPlacesAttributes windows{
      {g.kernel[0], g.kernel[1]},
      {g.out[0], g.out[1]},
      {g.stride[0], g.stride[1]},
      {g.pad[0], g.pad[1]},
      {g.dilation[0], g.dilation[1]}};
  const NDArray offset = inputs[1].astype(wide, site);
  // (N * groups of offsets, taps, OH * OW)
  const Arrays moved = invoke(detail::k_tap_places, {&offset, 1}, Attributes::of(windows), site);
  const NDArray images = x.reshape({-1, g.inputs / a.deformable_groups, g.in[0], g.in[1]}, site);
  NDArray samples = detail::sampled(images, moved[0], moved[1], SampleMode::bilinear, site);
  if (a.masked)
    samples = multiply(samples, inputs[2].astype(wide, site).reshape({-1, 1, taps, points}, site), site);
  const NDArray columns = samples.astype(x.dtype(), site).reshape({-1, g.groups, g.depth(), points}, site);
  const NDArray rows = weight.reshape({1, g.groups, g.group_outputs(), g.depth()}, site);
  return {biased(matmul(rows, columns, site).reshape({-1, g.outputs, g.out[0], g.out[1]}, site))};
}

}  // namespace

constinit const Operator detail::k_deformable_convolution{
    .name = "deformable_convolution",
    .inputs = -1,
    .attributes = &attribute_type<DeformableAttributes>,
    .infer = infer_deformable,
    .composition = convolve,
};

NDArray deformable_convolution(
    const NDArray& x,
    const NDArray& offset,
    const NDArray& weight,
    const NDArray& bias,
    const NDArray& mask,
    const DeformableConvolutionOptions& o,
    SourceLocation site) {
  const DeformableAttributes how{o.stride, o.pad, o.dilation, o.groups, o.deformable_groups, mask.defined()};
  std::vector<NDArray> inputs{x, offset};
  if (mask.defined())
    inputs.push_back(mask);
  inputs.push_back(weight);
  if (bias.defined())
    inputs.push_back(bias);
  return invoke(detail::k_deformable_convolution, inputs, Attributes::of(how), site)[0];
}

}  // namespace sluice
