#pragma once

#include <cstdint>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Attributes of a convolution with relu whose result max pooling takes, in windows that lie inside and apart, and of
/// its gradient.
struct PooledConvolutionAttributes {
  Shape stride{1, 1}, pad{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  Shape pool_kernel{2, 2}, pool_stride{2, 2};
  bool bias = false, data = false;  // backward: further outputs, the gradients of the bias and of x

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("groups", groups);
    v.field("pool_kernel", pool_kernel);
    v.field("pool_stride", pool_stride);
    v.field("bias", bias);
    v.field("data", data);
  }
  ConvolutionAttributes convolution() const {
    return {.stride = stride, .pad = pad, .dilation = dilation, .groups = groups};
  }
};

/// Every extent of one: index 0 is height, 1 is width.
struct PooledGeometry {
  ConvolutionGeometry g;
  std::int64_t out[2] = {}, kernel[2] = {}, stride[2] = {};  // of pooling

  std::int64_t out_plane() const noexcept { return out[0] * out[1]; }
  Shape maxima_shape() const { return {g.images, g.outputs, out[0], out[1]}; }
  /// Of what says which tap of its window each maximum is, k_masked_place (simd/block_rows.h) where it is not above 0.
  Shape places_shape() const { return {g.images, out[0], out[1], g.outputs}; }
};

/// Whether such a place has a number for each tap of a window.
bool are_places_enough(const Shape& kernel) noexcept;

/// From x and weight. Throws ShapeError and ValueError naming `op` and the values.
PooledGeometry pooled_geometry(
    const char* op, const Shape& x, const Shape& weight, DType dtype, const PooledConvolutionAttributes& attributes);

/// What the passes read and write; all contiguous.
struct PooledData {
  ConvolutionData convolution = {};  // but for y; backward: of the weight and the bias
  ConvolutionData of_x = {};         // backward: of x, null where it is not asked for
  void* maxima = nullptr;            // backward: their gradients
  std::uint8_t* places = nullptr;
};

/// By oneDNN, a piece of the images after the other, whose sums stay where they are in the order that it gives and
/// takes them. False, and nothing done, where it does not take the convolution so.
bool pooled_forward_onednn(const Queue& queue, const PooledGeometry& p, const PooledData& data);
bool pooled_backward_onednn(const Queue& queue, const PooledGeometry& p, const PooledData& data);

// Operators of plans. x, weight, maybe bias -> maxima, their places
extern const Operator convolution_relu_pool_op;
// gradients of maxima, their places, x, weight -> gradients of weight, of bias and of x where they are asked for
extern const Operator convolution_relu_pool_backward_op;

// Kernels of the operators.
void convolution_relu_pool_cpu(const KernelCall& call);
void convolution_relu_pool_backward_cpu(const KernelCall& call);

}  // namespace sluice::detail
