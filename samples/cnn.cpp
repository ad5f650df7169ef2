// Trains one of two convolutional networks on Fashion-MNIST: those of PyTorch's and TensorFlow's MNIST walk-throughs.
#include <memory>

#include "samples/support/training.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
using Loss = gluon::loss::SoftmaxCrossEntropyLoss;

// 32 and 64 windows of 3x3, pooled, two dense layers, dropout before each; ends in log-probabilities.
nn::Sequential torch_network() {
  nn::Sequential net;
  net.add(
      nn::Conv2D(32, 3, {.activation = "relu"}),
      nn::Conv2D(64, 3, {.activation = "relu"}),
      nn::MaxPool2D(2),
      nn::Dropout(0.25),
      nn::Dense(128, {.activation = "relu"}),
      nn::Dropout(0.5),
      nn::Dense(10),
      nn::Lambda([](const NDArray& x) { return log_softmax(x); }));
  return net;
}

nn::Sequential tf_network() {
  nn::Sequential net;
  net.add(
      nn::Conv2D(32, 3, {.activation = "relu"}),
      nn::MaxPool2D(2),
      nn::Dense(64, {.activation = "relu"}),
      nn::Dense(10));
  return net;
}

}  // namespace

int main(int argc, char** argv) {
  samples::TrainingOptions options{.model = "torch", .batch_size = 64};
  CLI::App app("Trains a convolutional network on Fashion-MNIST.");
  app.add_option(
         "--model", options.model, "torch or tf: the network of PyTorch's or of TensorFlow's MNIST walk-through")
      ->check(CLI::IsMember({"torch", "tf"}))
      ->capture_default_str();
  return samples::train_main(app, argc, argv, options, [&] {
    if (options.model == "tf")
      return samples::Model{tf_network(), std::make_unique<Loss>()};
    return samples::Model{
        torch_network(), std::make_unique<Loss>(gluon::loss::SoftmaxCrossEntropyOptions{.from_logits = true})};
  });
}
