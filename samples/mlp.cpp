// Trains the network 784-256-10 on Fashion-MNIST (or any files of MNIST's format).
#include "samples/support/training.h"

int main(int argc, char** argv) {
  using namespace sluice;
  samples::TrainingOptions options{.batch_size = 256, .adam_rate = 3e-3, .final_rate = 0.1};
  CLI::App app("Trains a multilayer perceptron, 784-256-10, on Fashion-MNIST.");
  options.add_to(app);
  return samples::run_main(app, argc, argv, [&] {
    const auto network = [] {
      gluon::nn::Sequential net;
      net.add(gluon::nn::Dense(256, {.activation = "relu"}), gluon::nn::Dense(10));
      return net;
    };
    return samples::train(options, network, gluon::loss::SoftmaxCrossEntropyLoss());
  });
}
