#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/conv1d.h>

namespace sluice::gluon::nn {

namespace {

// Checked before the parameters are declared: their shapes are divided by the groups.
std::int64_t channels_a_group(std::int64_t channels, std::int64_t kernel, const Conv1DOptions& o) {
  require(
      o.groups >= 1 && channels >= 1 && channels % o.groups == 0 && o.in_channels >= 0 && o.in_channels % o.groups == 0,
      [&] {
        return message(
            "nn::Conv1D: ",
            channels,
            " channels and ",
            o.in_channels,
            " in_channels do not divide into ",
            o.groups,
            " groups");
      });
  require(kernel >= 1 && o.strides >= 1 && o.dilation >= 1 && o.padding >= 0, [&] {
    return message(
        "nn::Conv1D: kernel_size ",
        kernel,
        ", strides ",
        o.strides,
        " and dilation ",
        o.dilation,
        " must be >= 1, padding ",
        o.padding,
        " >= 0");
  });
  return o.in_channels / o.groups;
}

}  // namespace

Conv1D::Conv1D(std::int64_t channels, std::int64_t kernel_size, Conv1DOptions options)
    : window_{
          .stride = options.strides,
          .pad = {options.padding},
          .dilation = options.dilation,
          .groups = options.groups,
          .activation = options.activation == "relu" ? "relu" : ""},
      channels_(channels),
      kernel_(kernel_size),
      activation_(options.activation == "relu" ? nullptr : detail::activation_function(options.activation)),
      weight_(parameter(
          "weight",
          {.shape = {channels, channels_a_group(channels, kernel_size, options), kernel_size},
           .dtype = options.dtype,
           .init = options.weight_initializer})),
      bias_(
          options.use_bias
              ? &parameter("bias", {.shape = {channels}, .dtype = options.dtype, .init = options.bias_initializer})
              : nullptr) {
  note_options(gluon::detail::convolution_notes(weight_, 1, options.groups, channels, kernel_size, options));
}

NDArray Conv1D::forward(const NDArray& x) const {
  if (!weight_.is_initialized()) [[unlikely]] {
    require<ShapeError>(x.ndim() == 3 && x.shape()[1] >= 1 && x.shape()[1] % window_.groups == 0, [&] {
      return message(
          "Conv1D: x must be (N, C, W) with channels that divide into ", window_.groups, " groups, not ", x.shape());
    });
    weight_.complete({channels_, x.shape()[1] / window_.groups, kernel_});
  }
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data();
  const NDArray y = convolution1d(x, weight_.data(), bias, window_, call_site());
  return activation_ == nullptr ? y : activation_(y, call_site());
}

}  // namespace sluice::gluon::nn
