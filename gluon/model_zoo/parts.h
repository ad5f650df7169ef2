#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/gluon/nn/conv.h>
#include <sluice/gluon/nn/sequential.h>

// What several models are made of. Private to this folder.
namespace sluice::gluon::model_zoo {

template <class B>
std::shared_ptr<Block> shared(B&& block) {
  return std::make_shared<B>(std::move(block));
}

/// A convolution without bias, batch norm, and an activation unless its name is empty.
struct ConvNorm {
  std::int64_t channels = 0;
  nn::Size2D kernel = 1;
  nn::Size2D strides = 1;
  nn::Padding2D padding = 0;
  std::int64_t groups = 1;
  const char* activation = "relu";
  double epsilon = 1e-5;
  bool use_bias = false;
};
inline void add_conv_norm(nn::Sequential& net, const ConvNorm& what) {
  net.add(nn::Conv2D(
      what.channels,
      what.kernel,
      {.strides = what.strides, .padding = what.padding, .groups = what.groups, .use_bias = what.use_bias}));
  net.add(nn::BatchNorm({.epsilon = what.epsilon}));
  if (*what.activation != '\0')
    net.add(nn::Activation(what.activation));
}

}  // namespace sluice::gluon::model_zoo
