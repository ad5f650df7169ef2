#pragma once

#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/geometry.h>

namespace sluice {

/// What convolution_fused() does with its sums; undefined: nothing. Of O output channels.
struct ConvolutionEpilogue {
  NDArray scale = {};     // (O,): each channel times that
  NDArray shift = {};     // (O,): plus that
  NDArray residual = {};  // of the result's shape and type: plus that
};

/// relu(convolution(x, weight) * scale + shift + residual), relu where options.activation says so: a convolution with
/// what follows it in a residual network, batch_norm included whose statistics are constants. scale and shift are
/// float32, of a float64 x float64. On a GPU one kernel, of ours for half types (an infinite
/// weight gives NaN there where it meets an image's edge) and for small ones in TF32, of cuDNN's where it has one, in
/// which numbers are rounded to x's type once, at the end; elsewhere a convolution and one pass over its result, so
/// that sums beyond what x's type holds are inf, whatever the scale. Throws what convolution() throws; ShapeError,
/// DTypeError for the others.
SLUICE_API NDArray convolution_fused(
    const NDArray& x,
    const NDArray& weight,
    const ConvolutionEpilogue& then,
    const ConvolutionOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {

/// Which inputs stand behind x and weight, in this order, and relu.
struct ConvolutionFusedAttributes {
  Shape stride{1, 1}, pad{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool scale = false, shift = false, residual = false, relu = false;

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("groups", groups);
    v.field("scale", scale);
    v.field("shift", shift);
    v.field("residual", residual);
    v.field("relu", relu);
  }
  ConvolutionAttributes convolution() const {
    return {.stride = stride, .pad = pad, .dilation = dilation, .groups = groups};
  }
};

extern const Operator convolution_fused_op;

/// What a kernel's call asks for.
struct ConvolutionFusedCall {
  explicit ConvolutionFusedCall(const KernelCall& call);

  ConvolutionGeometry geometry;
  ConvolutionData data;
  ChannelEpilogue then;
};

MemoryOrder convolution_fused_order(std::span<const NDArray> inputs, const Attributes& attributes);
void convolution_fused_cpu(const KernelCall& call);
void convolution_fused_gpu(const KernelCall& call);

/// The sums alone, as convolution() makes them; no extent need be other than 0.
void convolution_sums_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data);
/// All of it as one plan of a library's; false, and nothing done, where there is none. No extent is 0.
bool convolution_fused_by_plan(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then);

}  // namespace detail
}  // namespace sluice
