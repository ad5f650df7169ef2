#include "tests/bench/networks/layers.h"

namespace sluice::bench {

namespace nn = gluon::nn;

Conv::Conv(std::int64_t in, std::int64_t out, const ConvOptions& options)
    : window_{
          .stride = {options.stride, options.stride},
          .pad = {options.kernel / 2 * options.dilation, options.kernel / 2 * options.dilation},
          .dilation = {options.dilation, options.dilation}},
      weight_(parameter("weight", {.shape = {out, in, options.kernel, options.kernel}})),
      bias_(options.bias ? &parameter("bias", {.shape = {out}, .init = gluon::init::Zero()}) : nullptr) {}

NDArray Conv::forward(const NDArray& x) const {
  const NDArray bias = bias_ == nullptr ? NDArray() : bias_->data().astype(x.dtype());
  return convolution(x, weight_.data().astype(x.dtype()), bias, window_);
}

Linear::Linear(std::int64_t in, std::int64_t out)
    : weight_(parameter("weight", {.shape = {out, in}})),
      bias_(parameter("bias", {.shape = {out}, .init = gluon::init::Zero()})) {}

NDArray Linear::forward(const NDArray& x) const {
  return dense(x, weight_.data().astype(x.dtype()), bias_.data().astype(x.dtype()));
}

nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvOptions& options, bool relu) {
  nn::Sequential net;
  net.add(Conv(in, out, options), nn::BatchNorm({.in_channels = out}));
  if (relu)
    net.add(nn::Activation("relu"));
  return net;
}

}  // namespace sluice::bench
