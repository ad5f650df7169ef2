#pragma once

#include <memory>
#include <utility>

#include "samples/support/model.h"

// The networks that samples train on Fashion-MNIST, with their losses.
namespace samples {

/// 784-256-10.
inline Model mlp() {
  using namespace sluice::gluon;
  nn::Sequential net;
  net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
  return {std::move(net), std::make_unique<loss::SoftmaxCrossEntropyLoss>()};
}

/// That of PyTorch's MNIST walk-through: 32 and 64 windows of 3x3, pooled, two dense layers, dropout before each; ends
/// in log-probabilities.
inline Model torch_cnn() {
  using namespace sluice::gluon;
  nn::Sequential net;
  net.add(
      nn::Conv2D(32, 3, {.activation = "relu"}),
      nn::Conv2D(64, 3, {.activation = "relu"}),
      nn::MaxPool2D(2),
      nn::Dropout(0.25),
      nn::Dense(128, {.activation = "relu"}),
      nn::Dropout(0.5),
      nn::Dense(10),
      nn::Lambda([](const sluice::NDArray& x) { return log_softmax(x); }));
  const loss::SoftmaxCrossEntropyOptions options{.from_logits = true};
  return {std::move(net), std::make_unique<loss::SoftmaxCrossEntropyLoss>(options)};
}

/// That of TensorFlow's.
inline Model tf_cnn() {
  using namespace sluice::gluon;
  nn::Sequential net;
  net.add(
      nn::Conv2D(32, 3, {.activation = "relu"}),
      nn::MaxPool2D(2),
      nn::Dense(64, {.activation = "relu"}),
      nn::Dense(10));
  return {std::move(net), std::make_unique<loss::SoftmaxCrossEntropyLoss>()};
}

}  // namespace samples
