#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/conv.h>

namespace sluice::gluon::nn {

namespace {

// Checked before the parameters are declared: their shapes are divided by the groups.
std::int64_t channels_a_group(std::int64_t channels, const Size2D& kernel, const Conv2DOptions& options) {
  const std::int64_t groups = options.groups, in = options.in_channels;
  require(groups >= 1 && channels >= 1 && channels % groups == 0 && in >= 0 && in % groups == 0, [&] {
    return message(
        "nn::Conv2D: ", channels, " channels and ", in, " in_channels do not divide into ", groups, " groups");
  });
  require(kernel.height >= 1 && kernel.width >= 1, [&] {
    return message("nn::Conv2D: kernel_size is (", kernel.height, ", ", kernel.width, ")");
  });
  const Size2D &stride = options.strides, &dilation = options.dilation;
  require(stride.height >= 1 && stride.width >= 1 && dilation.height >= 1 && dilation.width >= 1, [&] {
    return message(
        "nn::Conv2D: strides (",
        stride.height,
        ", ",
        stride.width,
        ") and dilation (",
        dilation.height,
        ", ",
        dilation.width,
        ") must be >= 1");
  });
  require(options.padding.is_valid(), [&] { return message("nn::Conv2D: padding is ", options.padding.shape()); });
  return in / groups;
}

}  // namespace

Conv2D::Conv2D(std::int64_t channels, Size2D kernel_size, Conv2DOptions options)
    : window_{
          .stride = options.strides.shape(),
          .pad = options.padding.shape(),
          .dilation = options.dilation.shape(),
          .groups = options.groups,
          .activation = options.activation == "relu" ? "relu" : ""},
      channels_(channels),
      kernel_(kernel_size),
      activation_(options.activation == "relu" ? nullptr : detail::activation_function(options.activation)),
      weight_(parameter(
          "weight",
          {.shape = {channels, channels_a_group(channels, kernel_size, options), kernel_size.height, kernel_size.width},
           .dtype = options.dtype,
           .init = options.weight_initializer})),
      bias_(
          options.use_bias
              ? &parameter("bias", {.shape = {channels}, .dtype = options.dtype, .init = options.bias_initializer})
              : nullptr) {
  note_options(gluon::detail::convolution_notes(weight_, 1, options.groups, channels, kernel_size, options));
}

NDArray Conv2D::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]] {
    require<ShapeError>(x.ndim() == 4, [&] {
      const char* const remedy = x.ndim() == 3 ? "; expand_dims(0) makes one image a batch" : "";
      return message("Conv2D: x must be (N, C, H, W), not ", x.shape(), remedy);
    });
    const std::int64_t in = x.shape()[1];
    require<ShapeError>(in >= 1 && in % window_.groups == 0, [&] {
      return message(
          "Conv2D: the ",
          in,
          " channels of x ",
          x.shape(),
          ", (N, C, H, W), do not divide into ",
          window_.groups,
          " groups");
    });
    weight_.complete({channels_, in / window_.groups, kernel_.height, kernel_.width});
  }
  const NDArray y = convolution(x, weight_.data(), bias_ == nullptr ? NDArray() : bias_->data(), window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

}  // namespace sluice::gluon::nn
