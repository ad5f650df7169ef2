#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/deformable.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/vision/grid_sample.h>

namespace sluice::gluon::nn {

namespace {

void check(const char* name, std::int64_t channels, const Size2D& kernel, const DeformableConvolutionOptions& o) {
  const std::int64_t in = o.in_channels, groups = o.groups, shares = o.num_deformable_group;
  const bool divides = groups >= 1 && shares >= 1 && channels >= 1 && channels % groups == 0 && in >= 0;
  require(divides && in % groups == 0 && in % shares == 0, [&] {
    return message(
        name,
        ": ",
        channels,
        " channels and ",
        in,
        " in_channels do not divide into ",
        groups,
        " groups, and ",
        shares,
        " of offsets");
  });
  const auto is_at_least = [](const Size2D& size, std::int64_t least) {
    return size.height >= least && size.width >= least;
  };
  const bool fits = is_at_least(kernel, 1) && is_at_least(o.strides, 1) && is_at_least(o.dilation, 1);
  require(fits && is_at_least(o.padding, 0), [&] {
    return message(
        name,
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
}

}  // namespace

DeformableConvolution::DeformableConvolution(
    std::int64_t channels, Size2D kernel_size, DeformableConvolutionOptions options)
    : DeformableConvolution("nn::DeformableConvolution", channels, kernel_size, options, false) {}

DeformableConvolution::DeformableConvolution(
    const char* name,
    std::int64_t channels,
    Size2D kernel_size,
    const DeformableConvolutionOptions& options,
    bool modulated)
    : name_(name),
      channels_(channels),
      kernel_(kernel_size),
      options_(options),
      modulated_(modulated),
      activation_(detail::activation_function(options.activation)) {
  check(name, channels, kernel_size, options);
  const std::int64_t said = modulated ? offsets() / 2 * 3 : offsets(), in = options.in_channels;
  const std::int64_t height = kernel_.height, width = kernel_.width;
  weight_ =
      &declare("deformable_conv_weight", {channels, in / options.groups, height, width}, options.weight_initializer);
  if (options.use_bias)
    bias_ = &declare("deformable_conv_bias", {channels}, options.bias_initializer);
  offset_weight_ = &declare("offset_weight", {said, in, height, width}, options.offset_weight_initializer);
  if (options.offset_use_bias)
    offset_bias_ = &declare("offset_bias", {said}, options.offset_bias_initializer);
  note_options(gluon::detail::convolution_notes(*weight_, 1, options.groups, channels, kernel_size, options)
                   .add("num_deformable_group", options.num_deformable_group, std::int64_t{1})
                   .add("offset_use_bias", options.offset_use_bias, true));
}

std::int64_t DeformableConvolution::offsets() const noexcept {
  return 2 * options_.num_deformable_group * kernel_.height * kernel_.width;
}

Parameter& DeformableConvolution::declare(const char* name, const Shape& shape, const init::Initializer& init) {
  return parameter(name, {.shape = shape, .dtype = options_.dtype, .init = init});
}

NDArray DeformableConvolution::forward(const NDArray& x) const {
  const auto& o = options_;
  if (!weight_->is_initialized() || !offset_weight_->is_initialized()) [[unlikely]] {
    const bool fits = x.ndim() == 4 && x.shape()[1] >= 1 && x.shape()[1] % o.groups == 0;
    require<ShapeError>(fits && x.shape()[1] % o.num_deformable_group == 0, [&] {
      return message(name_, ": x must be (N, C, H, W) with channels that divide into groups, not ", x.shape());
    });
    const std::int64_t in = x.shape()[1];
    if (!weight_->is_initialized())
      weight_->complete({channels_, in / o.groups, kernel_.height, kernel_.width});
    if (!offset_weight_->is_initialized())
      offset_weight_->complete({offset_weight_->shape()[0], in, kernel_.height, kernel_.width});
  }
  const SourceLocation site = call_site();
  const auto data_of = [](const Parameter* parameter) { return parameter == nullptr ? NDArray() : parameter->data(); };
  const NDArray said = convolution(
      x,
      offset_weight_->data(),
      data_of(offset_bias_),
      {.stride = o.strides.shape(), .pad = o.padding.shape(), .dilation = o.dilation.shape()},
      site);
  NDArray offset = said, mask;
  if (modulated_) {
    offset = said.slice(1, 0, offsets(), 1, site);
    mask = multiply(sigmoid(said.slice(1, offsets(), offsets() / 2 * 3, 1, site), site), 2, site);
  }
  const NDArray y = deformable_convolution(
      x,
      offset,
      weight_->data(),
      data_of(bias_),
      mask,
      {.stride = o.strides.shape(),
       .pad = o.padding.shape(),
       .dilation = o.dilation.shape(),
       .groups = o.groups,
       .deformable_groups = o.num_deformable_group},
      site);
  return activation_ == nullptr ? y : activation_(y, site);
}

ModulatedDeformableConvolution::ModulatedDeformableConvolution(
    std::int64_t channels, Size2D kernel_size, const DeformableConvolutionOptions& options)
    : DeformableConvolution("nn::ModulatedDeformableConvolution", channels, kernel_size, options, true) {}

}  // namespace sluice::gluon::nn
