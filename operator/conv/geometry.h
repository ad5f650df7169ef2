#pragma once

#include <cstdint>

#include <sluice/operator/library/channel.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Attributes of convolution and of its gradients; pairs are (height, width), `pad` may be (top, left, bottom, right).
struct ConvolutionAttributes {
  Shape stride{1, 1}, pad{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = false;  // backward weights: a second output, the gradient of the bias

  template <class V>
  void visit(V&& v) {
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("dilation", dilation);
    v.field("groups", groups);
    v.field("bias", bias);
  }
};

/// Attributes of what goes before the passes of a fused relu's gradient.
struct ReluBackwardAttributes {
  bool bias = false;  // a second output, the gradient of the bias

  template <class V>
  void visit(V&& v) {
    v.field("bias", bias);
  }
};

/// Sums of fewer terms than this many fill no tensor core, and are not rounded for one: the library's own order there
/// is off by a factor of ten.
inline constexpr std::int64_t k_least_depth = 32;

/// Every extent of one convolution; index 0 is height, 1 is width.
struct ConvolutionGeometry {
  DType dtype = DType::float32;
  std::int64_t images = 0, inputs = 0, outputs = 0, groups = 1;  // inputs, outputs: channels
  std::int64_t in[2] = {}, kernel[2] = {}, out[2] = {};
  std::int64_t stride[2] = {}, dilation[2] = {};
  std::int64_t pad[2] = {}, pad_end[2] = {};  // before the image and behind it

  std::int64_t group_inputs() const noexcept { return inputs / groups; }
  std::int64_t group_outputs() const noexcept { return outputs / groups; }
  std::int64_t in_plane() const noexcept { return in[0] * in[1]; }
  std::int64_t out_plane() const noexcept { return out[0] * out[1]; }
  /// Inputs that one output is a sum of: rows of the unfolded image.
  std::int64_t depth() const noexcept { return group_inputs() * kernel[0] * kernel[1]; }
  bool is_pointwise() const noexcept {
    return kernel[0] == 1 && kernel[1] == 1 && stride[0] == 1 && stride[1] == 1 && pad[0] == 0 && pad[1] == 0 &&
           pad_end[0] == 0 && pad_end[1] == 0;
  }
  Shape x_shape() const { return {images, inputs, in[0], in[1]}; }
  Shape weight_shape() const { return {outputs, group_inputs(), kernel[0], kernel[1]}; }
  Shape y_shape() const { return {images, outputs, out[0], out[1]}; }
};

/// From x and weight. Throws ShapeError and ValueError naming `op` and the values.
ConvolutionGeometry convolution_geometry(
    const char* op, const Shape& x, const Shape& weight, DType dtype, const ConvolutionAttributes& attributes);

/// The geometry of a kernel call of each of the three operators.
ConvolutionGeometry forward_geometry(const KernelCall& call);
ConvolutionGeometry backward_data_geometry(const KernelCall& call);
ConvolutionGeometry backward_weights_geometry(const KernelCall& call);

/// What the passes of a convolution read and write; all contiguous.
struct ConvolutionData {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;  // forward, oneDNN and shallow ones only
  void* bias_grad = nullptr;   // backward weights, the same
  bool relu = false;           // forward, on a CPU
};

enum class ConvolutionPass : std::uint8_t { forward, backward_data, backward_weights };

// Our own: unfolding and products, for every floating type.
void convolution_own(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data);
/// A pass on a CPU by whoever takes it. bias_grad for oneDNN's alone.
void convolution_pass_cpu(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data);
/// oneDNN's: false where it does not take the convolution. relu of float32 alone.
bool convolution_onednn(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data);

/// On a GPU where cuDNN has no engine: unfolding and products, of copies where arrays lie otherwise than row by row. No
/// extent is 0.
void convolution_unfolded_gpu(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    MemoryOrder order = MemoryOrder::row_major);

/// Of the forward pass and of the gradient of x; of the gradient of the weight; of the latter with relu's mask.
MemoryOrder convolution_order(std::span<const NDArray> inputs, const Attributes& attributes);
MemoryOrder convolution_weights_order(std::span<const NDArray> inputs, const Attributes& attributes);
MemoryOrder convolution_relu_weights_order(std::span<const NDArray> inputs, const Attributes& attributes);
/// Whether float32 may be multiplied by tensor cores now.
bool is_tf32(DType dtype) noexcept;
/// As the arrays of a pass lie, which was chosen when the call was pushed; as a bias is added to its outputs.
MemoryOrder order_in(const KernelCall& call);
ChannelView channels_of(const ConvolutionGeometry& g, MemoryOrder order) noexcept;

// Kernels of the operators.
void convolution_cpu(const KernelCall& call);
void convolution_backward_data_cpu(const KernelCall& call);
void convolution_backward_weights_cpu(const KernelCall& call);
void convolution_relu_backward_cpu(const KernelCall& call);
void convolution_relu_backward_weights_cpu(const KernelCall& call);
void convolution_gpu(const KernelCall& call);
void convolution_backward_data_gpu(const KernelCall& call);
void convolution_backward_weights_gpu(const KernelCall& call);
void convolution_relu_backward_gpu(const KernelCall& call);
void convolution_relu_backward_weights_gpu(const KernelCall& call);

}  // namespace sluice::detail
