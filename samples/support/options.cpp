#include "samples/support/options.h"

#include <fmt/format.h>

#include "samples/support/flags.h"

namespace samples {

using namespace sluice;

namespace {

constexpr double k_sgd_rate = 0.05;

void add_course_flags(CommandLine& command, TrainingOptions& to) {
  command.add_option("--epochs", to.epochs, "Passes over the training images").check(whole_within(1, 100000));
  command.add_option("--batch-size", to.batch_size, "Images a step").check(whole_within(1, 60000));
  command
      .add_option(
          "--lr",
          to.learning_rate,
          fmt::format("Learning rate (default: {} for adam, {} for sgd)", to.adam_rate, k_sgd_rate))
      .check(finite_within({.low = 0, .open_low = true}));
  command.add_option("--final-lr", to.final_rate, "The learning rate falls evenly to this share of itself")
      .check(finite_within({.low = 0, .high = 1}));
  command.add_option("--optimizer", to.optimizer, "sgd or adam").one_of({"sgd", "adam"});
  command.add_option("--momentum", to.momentum, "Momentum of sgd")
      .check(finite_within({.low = 0, .high = 1, .open_high = true}));
  command.add_option("--weight-decay", to.weight_decay, "Weight decay").check(finite_within({.low = 0}));
  command.add_option("--seed", to.seed, "Seed of weights, shuffling and dropout").check(whole_number());
  command.add_flag(
      "--hybrid", to.hybrid, "Run each training step and each evaluated batch as one graph: faster, the same numbers");
  command
      .add_option(
          "--memory-budget",
          to.budget,
          "With --hybrid: results of a step take so many MiB, or as few as can be; some are computed again: the same "
          "numbers")
      .check(finite_within({.low = 0, .high = 1 << 20}))
      .value_name("MIB")
      .needs("--hybrid");
  command.add_option("--precision", to.precision, "highest, or high: TF32 on a GPU").one_of({"highest", "high"});
  to.mixed.add_to(command);
  for (const char* shown :
       {"--epochs", "--batch-size", "--final-lr", "--optimizer", "--momentum", "--seed", "--precision"})
    command.flag(shown).with_default();
}

void add_file_flags(CommandLine& command, TrainingOptions& to) {
  command.add_option(
      "--data", to.data, "Folder of Fashion-MNIST's files (default: $SLUICE_DATA, then those of Debian)");
  command.add_option(
      "--save",
      to.save,
      "Write parameters and all that --resume needs there (.npz) at the end, on Ctrl-C and on errors");
  command.add_option("--save-every", to.save_every, "Write that file after every N epochs too")
      .check(whole_within(1, 100000))
      .needs("--save");
  command.add_option("--load", to.load, "Start from the parameters of this file");
  command
      .add_option(
          "--resume",
          to.resume,
          "Go on where the run that wrote this file stopped, with its settings: to the last bit as "
          "if it had not stopped, with the same --threads (with convolutions on a CPU: with --threads 1)")
      .excludes("--load");
  command.add_flag("--evaluate", to.evaluate, "Do not train: judge the parameters of --load or --resume");
  command.add_option(
      "--report", to.report, "Write a page about the run into this folder: curves, confusions, mistakes");
  command
      .add_option(
          "--export",
          to.export_to,
          "Write the trained network as PREFIX.json and PREFIX.npz, which the sample infer runs")
      .value_name("PREFIX");
  for (const char* place : {"--save", "--load", "--resume", "--report", "--export"})
    command.flag(place).check(a_name());
  command.flag("--evaluate").excludes("--save");
}

// As if `text` had been given on the command line, with all its checks.
void give(CommandLine& command, const std::string& flag, const std::string& text, const std::string& file) {
  const std::optional<std::string> refusal = command.give(flag, text);
  require<FileError>(!refusal || flag != "--model", [&] {
    return message("--resume ", file, ": is a checkpoint of the network '", text, "', which this program has not");
  });
  require<FileError>(!refusal, [&] { return message(file, ": its settings cannot be: ", *refusal); });
}

}  // namespace

void TrainingOptions::add_to(CommandLine& to) {
  command = &to;
  to.add_device_flag(device);
  add_course_flags(to, *this);
  add_file_flags(to, *this);
  to.add_option("--threads", threads, "CPU workers (default: all)").check(whole_within(1, 1024));
  to.add_option("--losses", losses, "Print the first N losses, one a line").check(whole_within(0, 1000000));
  to.add_option("--log-every", log_every, "Seconds between lines where stdout is no terminal; 0: a line a step")
      .check(finite_within({.low = 0, .high = 86400}))
      .with_default();
  to.when_parsed([this] {
    if (evaluate && load.empty() && resume.empty())
      CommandLine::refuse("--evaluate", "needs --load FILE or --resume FILE: the parameters to judge");
    // A checkpoint's optimizer is not known yet; its settings are compared later.
    if (optimizer != "sgd" && resume.empty() && command->given("--momentum"))
      CommandLine::refuse("--momentum", "is of --optimizer sgd, not of " + optimizer);
  });
}

double TrainingOptions::rate() const {
  return learning_rate.value_or(optimizer == "sgd" ? k_sgd_rate : adam_rate);
}

graph::PlanOptions TrainingOptions::plan_options() const {
  return {.memory_budget = static_cast<std::size_t>(budget * (1 << 20))};
}

std::unique_ptr<gluon::optimizer::Optimizer> TrainingOptions::make_optimizer() const {
  if (optimizer == "sgd") {
    return std::make_unique<gluon::optimizer::SGD>(
        gluon::optimizer::SGDOptions{.learning_rate = rate(), .momentum = momentum, .wd = weight_decay});
  }
  return std::make_unique<gluon::optimizer::Adam>(
      gluon::optimizer::AdamOptions{.learning_rate = rate(), .wd = weight_decay});
}

// fmt prints the shortest text that reads back as the same number.
std::map<std::string, std::string> TrainingOptions::settings() const {
  return {
      {"--model", model},
      {"--epochs", fmt::format("{}", epochs)},
      {"--batch-size", fmt::format("{}", batch_size)},
      {"--lr", fmt::format("{}", rate())},
      {"--final-lr", fmt::format("{}", final_rate)},
      {"--optimizer", optimizer},
      {"--momentum", fmt::format("{}", momentum)},
      {"--weight-decay", fmt::format("{}", weight_decay)},
      {"--seed", fmt::format("{}", seed)},
      {"--precision", precision},
      {"--amp", mixed.type}};
}

void TrainingOptions::adopt(const std::map<std::string, std::string>& theirs, const std::string& file) {
  for (const auto& [flag, ours] : settings()) {
    const auto found = theirs.find(flag);
    require<FileError>(found != theirs.end(), [&, &flag = flag] { return message(file, ": lacks its ", flag); });
    const std::string& made_with = found->second;
    const bool known = command->has(flag);
    if (known && !command->given(flag)) {
      give(*command, flag, made_with, file);
      continue;
    }
    require(flag == "--epochs" || made_with == ours, [&, &flag = flag, &ours = ours] {
      return message(
          "--resume ",
          file,
          ": made with ",
          flag,
          " ",
          made_with,
          ", this run has ",
          flag,
          " ",
          ours,
          !known ? "" : " (leave the flag out to go on; --load takes the parameters alone)");
    });
  }
}

}  // namespace samples
