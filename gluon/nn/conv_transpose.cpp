#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/conv_transpose.h>

namespace sluice::gluon::nn {

namespace {

/// What both layers check before their parameters are declared: shapes are divided by the groups.
struct Sizes {
  const char* layer;
  std::int64_t channels, in_channels, groups;
  Shape kernel, strides, dilation, output_padding;
};

std::int64_t channels_a_group(const Sizes& s) {
  require(
      s.groups >= 1 && s.channels >= 1 && s.channels % s.groups == 0 && s.in_channels >= 0 &&
          s.in_channels % s.groups == 0,
      [&] {
        return message(
            s.layer,
            ": ",
            s.channels,
            " channels and ",
            s.in_channels,
            " in_channels do not divide into ",
            s.groups,
            " groups");
      });
  for (int axis = 0; axis < s.kernel.ndim(); ++axis) {
    require(s.kernel[axis] >= 1 && s.strides[axis] >= 1 && s.dilation[axis] >= 1, [&] {
      return message(
          s.layer, ": kernel_size ", s.kernel, ", strides ", s.strides, " and dilation ", s.dilation, " must be >= 1");
    });
    require(s.output_padding[axis] >= 0 && s.output_padding[axis] < s.strides[axis], [&] {
      return message(s.layer, ": output_padding ", s.output_padding, " must be >= 0 and below strides ", s.strides);
    });
  }
  return s.channels / s.groups;
}

// The channels of x, which the weight was waiting for.
std::int64_t channels_of(const char* layer, const NDArray& x, int ndim, std::int64_t groups) {
  require<ShapeError>(x.ndim() == ndim && x.shape()[1] >= 1 && x.shape()[1] % groups == 0, [&] {
    const char* const axes = ndim == 4 ? "(N, C, H, W)" : "(N, C, W)";
    return message(layer, ": x must be ", axes, " with channels that divide into ", groups, " groups, not ", x.shape());
  });
  return x.shape()[1];
}

Sizes sizes_of(std::int64_t channels, const Size2D& kernel, const Conv2DTransposeOptions& o) {
  const char* const layer = "nn::Conv2DTranspose";
  require(o.padding.is_valid(), [&] { return message(layer, ": padding is ", o.padding.shape()); });
  return {
      layer,
      channels,
      o.in_channels,
      o.groups,
      kernel.shape(),
      o.strides.shape(),
      o.dilation.shape(),
      o.output_padding.shape()};
}

Sizes sizes_of(std::int64_t channels, std::int64_t kernel, const Conv1DTransposeOptions& o) {
  const char* const layer = "nn::Conv1DTranspose";
  require(o.padding >= 0, [&] { return message(layer, ": padding is ", o.padding); });
  return {layer, channels, o.in_channels, o.groups, {kernel}, {o.strides}, {o.dilation}, {o.output_padding}};
}

}  // namespace

Conv2DTranspose::Conv2DTranspose(std::int64_t channels, Size2D kernel_size, Conv2DTransposeOptions o)
    : window_{
          .stride = o.strides.shape(),
          .pad = o.padding.shape(),
          .dilation = o.dilation.shape(),
          .adj = o.output_padding.shape(),
          .groups = o.groups},
      channels_(channels),
      kernel_(kernel_size),
      activation_(detail::activation_function(o.activation)),
      weight_(parameter(
          "weight",
          {.shape = {o.in_channels, channels_a_group(sizes_of(channels, kernel_size, o)), kernel_size.height,
                     kernel_size.width},
           .dtype = o.dtype,
           .init = o.weight_initializer})),
      bias_(
          o.use_bias ? &parameter("bias", {.shape = {channels}, .dtype = o.dtype, .init = o.bias_initializer})
                     : nullptr) {
  note_options(gluon::detail::convolution_notes(weight_, 0, 1, channels, kernel_size, o));
}

NDArray Conv2DTranspose::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]] {
    const std::int64_t in = channels_of("Conv2DTranspose", x, 4, window_.groups);
    weight_.complete({in, channels_ / window_.groups, kernel_.height, kernel_.width});
  }
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = deconvolution(x, weight_.data(), bias, window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

Conv1DTranspose::Conv1DTranspose(std::int64_t channels, std::int64_t kernel_size, Conv1DTransposeOptions o)
    : window_{.stride = o.strides, .pad = {o.padding}, .dilation = o.dilation, .adj = o.output_padding, .groups = o.groups},
      channels_(channels),
      kernel_(kernel_size),
      activation_(detail::activation_function(o.activation)),
      weight_(parameter(
          "weight",
          {.shape = {o.in_channels, channels_a_group(sizes_of(channels, kernel_size, o)), kernel_size},
           .dtype = o.dtype,
           .init = o.weight_initializer})),
      bias_(
          o.use_bias ? &parameter("bias", {.shape = {channels}, .dtype = o.dtype, .init = o.bias_initializer})
                     : nullptr) {
  note_options(gluon::detail::convolution_notes(weight_, 0, 1, channels, kernel_size, o));
}

NDArray Conv1DTranspose::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]]
    weight_.complete({channels_of("Conv1DTranspose", x, 3, window_.groups), channels_ / window_.groups, kernel_});
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = deconvolution1d(x, weight_.data(), bias, window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

}  // namespace sluice::gluon::nn
