// Trains the network 784-256-10 on Fashion-MNIST.
#include "samples/networks.h"
#include "samples/support/training.h"

int main(int argc, char** argv) {
  samples::TrainingOptions options{.model = "mlp", .batch_size = 256, .adam_rate = 3e-3, .final_rate = 0.1};
  samples::CommandLine command("Trains a multilayer perceptron, 784-256-10, on Fashion-MNIST.");
  return samples::train_main(command, argc, argv, options, samples::mlp);
}
