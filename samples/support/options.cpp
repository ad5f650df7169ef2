#include "samples/support/options.h"

#include <fmt/format.h>

namespace samples {

using namespace sluice;

void add_device_flag(CLI::App& app, Device& device) {
  const auto read = [&device](const std::string& text) {
    try {
      device = parse_device(text);
    } catch (const Error& error) {
      throw CLI::ValidationError("--device", error.message());
    }
  };
  app.add_option_function<std::string>("--device", read, "cpu, gpu or gpu:N (default: the first GPU if there is one)")
      ->type_name("DEVICE");
}

void TrainingOptions::add_to(CLI::App& app) {
  add_device_flag(app, device);
  app.add_option("--epochs", epochs, "Passes over the training images")->check(CLI::Range(1, 100000));
  app.add_option("--batch-size", batch_size, "Images a step")->check(CLI::Range(std::int64_t{1}, std::int64_t{60000}));
  app.add_option("--lr", learning_rate, fmt::format("Learning rate (default: {} for adam, 0.05 for sgd)", adam_rate))
      ->check(CLI::PositiveNumber);
  app.add_option("--final-lr", final_rate, "The learning rate falls evenly to this share of itself")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--optimizer", optimizer, "sgd or adam")->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--momentum", momentum, "Momentum of sgd")->check(CLI::Range(0.0, 1.0));
  app.add_option("--weight-decay", weight_decay, "Weight decay")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", seed, "Seed of weights, shuffling and dropout");
  app.add_option("--data", data, "Folder of MNIST-like files (default: $SLUICE_DATA, then Fashion-MNIST of Debian)");
  app.add_option("--save", save, "Write the parameters there at the end, and on Ctrl-C");
  app.add_option("--load", load, "Start from these parameters (and the optimizer's state beside them)");
  app.add_option("--threads", threads, "CPU workers (default: all)")->check(CLI::Range(1, 1024));
  app.add_option("--losses", losses, "Print the first N losses, one a line")->check(CLI::Range(0, 1000000));
  app.add_option("--precision", precision, "highest, or high: TF32 on a GPU")
      ->check(CLI::IsMember({"highest", "high"}));
  for (const char* shown :
       {"--epochs", "--batch-size", "--final-lr", "--optimizer", "--momentum", "--seed", "--precision"})
    app.get_option(shown)->capture_default_str();
}

std::unique_ptr<gluon::optimizer::Optimizer> TrainingOptions::make_optimizer() const {
  if (optimizer == "sgd") {
    return std::make_unique<gluon::optimizer::SGD>(gluon::optimizer::SGDOptions{
        .learning_rate = learning_rate > 0 ? learning_rate : 0.05, .momentum = momentum, .weight_decay = weight_decay});
  }
  return std::make_unique<gluon::optimizer::Adam>(gluon::optimizer::AdamOptions{
      .learning_rate = learning_rate > 0 ? learning_rate : adam_rate, .weight_decay = weight_decay});
}

}  // namespace samples
