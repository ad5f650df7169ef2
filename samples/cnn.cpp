// Trains one of two convolutional networks on Fashion-MNIST: those of PyTorch's and TensorFlow's MNIST walk-throughs.
#include "samples/networks.h"
#include "samples/support/training.h"

int main(int argc, char** argv) {
  samples::TrainingOptions options{.model = "torch", .batch_size = 64};
  samples::CommandLine command("Trains a convolutional network on Fashion-MNIST.");
  command
      .add_option(
          "--model", options.model, "torch or tf: the network of PyTorch's or of TensorFlow's MNIST walk-through")
      .one_of({"torch", "tf"})
      .with_default();
  return samples::train_main(
      command, argc, argv, options, [&] { return options.model == "tf" ? samples::tf_cnn() : samples::torch_cnn(); });
}
