#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/volume.h>

namespace sluice::gluon::nn {

namespace {

// Checked before the parameters are declared: their shapes are divided by the groups. Gives `divided` a group.
template <class Options>
std::int64_t a_group(
    const char* layer, std::int64_t channels, const Size3D& kernel, const Options& o, std::int64_t divided) {
  const bool divides = o.groups >= 1 && channels >= 1 && channels % o.groups == 0 && o.in_channels >= 0;
  require(divides && o.in_channels % o.groups == 0, [&] {
    return message(
        layer,
        ": ",
        channels,
        " channels and ",
        o.in_channels,
        " in_channels do not divide into ",
        o.groups,
        " groups");
  });
  const bool fits = kernel.is_at_least(1) && o.strides.is_at_least(1) && o.dilation.is_at_least(1);
  require(fits && o.padding.is_at_least(0), [&] {
    return message(
        layer,
        ": kernel_size ",
        kernel.shape(),
        ", strides ",
        o.strides.shape(),
        " and dilation ",
        o.dilation.shape(),
        " must be >= 1, padding ",
        o.padding.shape(),
        " >= 0");
  });
  return divided / o.groups;
}

Shape weight_shape(std::int64_t first, std::int64_t second, const Size3D& kernel) {
  return {first, second, kernel.depth, kernel.height, kernel.width};
}

void check_volume(const char* layer, const NDArray& x, std::int64_t groups) {
  require<ShapeError>(x.ndim() == 5 && x.shape()[1] >= 1 && x.shape()[1] % groups == 0, [&] {
    return message(
        layer, ": x must be (N, C, D, H, W) with channels that divide into ", groups, " groups, not ", x.shape());
  });
}

sluice::Pool3DOptions pool_window(const char* layer, const Size3D& size, const Pool3DOptions& o) {
  const Size3D strides = o.strides.value_or(size);
  require(size.is_at_least(1) && strides.is_at_least(1) && o.padding.is_at_least(0), [&] {
    return message(
        layer,
        ": pool_size ",
        size.shape(),
        " and strides ",
        strides.shape(),
        " must be >= 1, padding ",
        o.padding.shape(),
        " >= 0");
  });
  return {
      .kernel = size.shape(),
      .stride = strides.shape(),
      .pad = o.padding.shape(),
      .ceil_mode = o.ceil_mode,
      .count_include_pad = o.count_include_pad};
}

const Size3D& checked_size(const char* layer, const Size3D& size) {
  require(size.is_at_least(1), [&] { return message(layer, ": output_size ", size.shape(), " must be >= 1"); });
  return size;
}

}  // namespace

Conv3D::Conv3D(std::int64_t channels, Size3D kernel_size, Conv3DOptions options)
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
          {.shape = weight_shape(
               channels, a_group("nn::Conv3D", channels, kernel_size, options, options.in_channels), kernel_size),
           .dtype = options.dtype,
           .init = options.weight_initializer})),
      bias_(
          options.use_bias
              ? &parameter("bias", {.shape = {channels}, .dtype = options.dtype, .init = options.bias_initializer})
              : nullptr) {
  note_options(gluon::detail::convolution_notes(weight_, 1, options.groups, channels, kernel_size, options));
}

NDArray Conv3D::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]] {
    check_volume("Conv3D", x, window_.groups);
    weight_.complete(weight_shape(channels_, x.shape()[1] / window_.groups, kernel_));
  }
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = convolution3d(x, weight_.data(), bias, window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

Conv3DTranspose::Conv3DTranspose(std::int64_t channels, Size3D kernel_size, Conv3DTransposeOptions options)
    : window_{
          .stride = options.strides.shape(),
          .pad = options.padding.shape(),
          .dilation = options.dilation.shape(),
          .adj = options.output_padding.shape(),
          .groups = options.groups},
      channels_(channels),
      kernel_(kernel_size),
      activation_(detail::activation_function(options.activation)),
      weight_(parameter(
          "weight",
          {.shape = weight_shape(
               options.in_channels,
               a_group("nn::Conv3DTranspose", channels, kernel_size, options, channels),
               kernel_size),
           .dtype = options.dtype,
           .init = options.weight_initializer})),
      bias_(
          options.use_bias
              ? &parameter("bias", {.shape = {channels}, .dtype = options.dtype, .init = options.bias_initializer})
              : nullptr) {
  const Size3D &more = options.output_padding, &step = options.strides;
  const bool fits = more.depth < step.depth && more.height < step.height && more.width < step.width;
  require(more.is_at_least(0) && fits, [&] {
    return message(
        "nn::Conv3DTranspose: output_padding ", more.shape(), " must be >= 0 and below strides ", step.shape());
  });
  note_options(gluon::detail::convolution_notes(weight_, 0, 1, channels, kernel_size, options));
}

NDArray Conv3DTranspose::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]] {
    check_volume("Conv3DTranspose", x, window_.groups);
    weight_.complete(weight_shape(x.shape()[1], channels_ / window_.groups, kernel_));
  }
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = deconvolution3d(x, weight_.data(), bias, window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

MaxPool3D::MaxPool3D(Size3D pool_size, Pool3DOptions options)
    : window_(pool_window("nn::MaxPool3D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, false));
}
NDArray MaxPool3D::forward(const NDArray& x) const {
  return max_pool3d(x, window_, call_site());
}

AvgPool3D::AvgPool3D(Size3D pool_size, Pool3DOptions options)
    : window_(pool_window("nn::AvgPool3D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, true));
}
NDArray AvgPool3D::forward(const NDArray& x) const {
  return avg_pool3d(x, window_, call_site());
}

NDArray GlobalMaxPool3D::forward(const NDArray& x) const {
  return max_pool3d(x, {.global = true}, call_site());
}
NDArray GlobalAvgPool3D::forward(const NDArray& x) const {
  return avg_pool3d(x, {.global = true}, call_site());
}

AdaptiveAvgPool3D::AdaptiveAvgPool3D(Size3D output_size)
    : output_size_(checked_size("nn::AdaptiveAvgPool3D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}
NDArray AdaptiveAvgPool3D::forward(const NDArray& x) const {
  return adaptive_avg_pool3d(x, output_size_.shape(), call_site());
}

AdaptiveMaxPool3D::AdaptiveMaxPool3D(Size3D output_size)
    : output_size_(checked_size("nn::AdaptiveMaxPool3D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}
NDArray AdaptiveMaxPool3D::forward(const NDArray& x) const {
  return adaptive_max_pool3d(x, output_size_.shape(), call_site());
}

}  // namespace sluice::gluon::nn
