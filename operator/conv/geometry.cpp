#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/sides.h>

namespace sluice::detail {
namespace {

void check_attributes(const char* op, const ConvolutionAttributes& a) {
  check_pair(op, a.stride, 1, "stride");
  check_pair(op, a.dilation, 1, "dilation");
  require<ValueError>(a.groups >= 1, [&] { return message(op, ": groups must be at least 1, not ", a.groups); });
}

void check_shapes(const char* op, const Shape& x, const Shape& weight, const ConvolutionAttributes& a) {
  require<ShapeError>(x.ndim() == 4, [&] {
    return message(
        op, ": x must be (N, C, H, W), not ", x, x.ndim() == 3 ? "; expand_dims(0) makes one image a batch" : "");
  });
  require<ShapeError>(
      weight.ndim() == 4, [&] { return message(op, ": weight must be (O, C / groups, KH, KW), not ", weight); });
  require<ShapeError>(x[1] % a.groups == 0 && weight[0] % a.groups == 0, [&] {
    return message(
        op,
        ": ",
        a.groups,
        " groups do not divide the ",
        x[1],
        " channels of x ",
        x,
        ", (N, C, H, W), and ",
        weight[0],
        " output channels");
  });
  require<ShapeError>(weight[1] == x[1] / a.groups, [&] {
    return message(
        op,
        ": x of shape ",
        x,
        ", (N, C, H, W), has ",
        x[1],
        " channels; the weight of shape ",
        weight,
        ", (O, C / groups, KH, KW), takes ",
        weight[1] * a.groups);
  });
}

}  // namespace

bool is_tf32(DType dtype) noexcept {
  return dtype == DType::float32 && current_float32_precision() == Float32Precision::high;
}

ConvolutionGeometry convolution_geometry(
    const char* op, const Shape& x, const Shape& weight, DType dtype, const ConvolutionAttributes& a) {
  check_attributes(op, a);
  const Sides sides = sides_of(op, a.pad);
  check_shapes(op, x, weight, a);
  ConvolutionGeometry g;
  g.dtype = dtype;
  g.images = x[0];
  g.inputs = x[1];
  g.outputs = weight[0];
  g.groups = a.groups;
  for (int axis = 0; axis < 2; ++axis) {
    g.in[axis] = x[axis + 2];
    g.kernel[axis] = weight[axis + 2];
    g.stride[axis] = a.stride[axis];
    g.pad[axis] = sides.begin[axis];
    g.pad_end[axis] = sides.end[axis];
    g.dilation[axis] = a.dilation[axis];
    const std::int64_t reach = g.dilation[axis] * (g.kernel[axis] - 1) + 1;
    const std::int64_t room = g.in[axis] + g.pad[axis] + g.pad_end[axis] - reach;
    require<ShapeError>(g.kernel[axis] >= 1 && room >= 0, [&] {
      return message(
          op,
          ": a window of ",
          g.kernel[axis],
          axis == 0 ? " rows" : " columns",
          " with dilation ",
          a.dilation[axis],
          " does not fit into the ",
          g.in[axis],
          " of x ",
          x,
          ", (N, C, H, W), with padding ",
          a.pad);
    });
    g.out[axis] = room / g.stride[axis] + 1;
  }
  return g;
}

ConvolutionGeometry forward_geometry(const KernelCall& call) {
  return convolution_geometry(
      "convolution",
      call.inputs[0].shape,
      call.inputs[1].shape,
      call.inputs[0].dtype,
      call.attributes.as<ConvolutionAttributes>());
}
ConvolutionGeometry backward_data_geometry(const KernelCall& call) {
  return convolution_geometry(
      "convolution_backward_data",
      call.outputs[0].shape,
      call.inputs[1].shape,
      call.inputs[0].dtype,
      call.attributes.as<ConvolutionAttributes>());
}
ConvolutionGeometry backward_weights_geometry(const KernelCall& call) {
  return convolution_geometry(
      "convolution_backward_weights",
      call.inputs[0].shape,
      call.outputs[0].shape,
      call.inputs[0].dtype,
      call.attributes.as<ConvolutionAttributes>());
}

}  // namespace sluice::detail
