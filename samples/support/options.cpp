#include "samples/support/options.h"

#include <fmt/format.h>

#include "samples/support/flags.h"

namespace samples {

using namespace sluice;

namespace {

constexpr double k_sgd_rate = 0.05;

void add_course_flags(CLI::App& app, TrainingOptions& to) {
  app.add_option("--epochs", to.epochs, "Passes over the training images")->check(whole_within(1, 100000));
  app.add_option("--batch-size", to.batch_size, "Images a step")->check(whole_within(1, 60000));
  app.add_option(
         "--lr",
         to.learning_rate,
         fmt::format("Learning rate (default: {} for adam, {} for sgd)", to.adam_rate, k_sgd_rate))
      ->check(finite_within({.low = 0, .open_low = true}));
  app.add_option("--final-lr", to.final_rate, "The learning rate falls evenly to this share of itself")
      ->check(finite_within({.low = 0, .high = 1}));
  app.add_option("--optimizer", to.optimizer, "sgd or adam")->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--momentum", to.momentum, "Momentum of sgd")
      ->check(finite_within({.low = 0, .high = 1, .open_high = true}));
  app.add_option("--weight-decay", to.weight_decay, "Weight decay")->check(finite_within({.low = 0}));
  app.add_option("--seed", to.seed, "Seed of weights, shuffling and dropout")->check(whole_number());
  app.add_flag(
      "--hybrid", to.hybrid, "Run each training step and each evaluated batch as one graph: faster, the same numbers");
  app.add_option(
         "--memory-budget",
         to.budget,
         "With --hybrid: results of a step take so many MiB, or as few as can be; some are computed again: the same "
         "numbers")
      ->check(finite_within({.low = 0, .high = 1 << 20}))
      ->type_name("MIB")
      ->needs("--hybrid");
  app.add_option("--precision", to.precision, "highest, or high: TF32 on a GPU")
      ->check(CLI::IsMember({"highest", "high"}));
  to.mixed.add_to(app);
  for (const char* shown :
       {"--epochs", "--batch-size", "--final-lr", "--optimizer", "--momentum", "--seed", "--precision"})
    app.get_option(shown)->capture_default_str();
}

void add_file_flags(CLI::App& app, TrainingOptions& to) {
  app.add_option("--data", to.data, "Folder of Fashion-MNIST's files (default: $SLUICE_DATA, then those of Debian)");
  CLI::Option* save = app.add_option(
      "--save",
      to.save,
      "Write parameters and all that --resume needs there (.npz) at the end, on Ctrl-C and on errors");
  app.add_option("--save-every", to.save_every, "Write that file after every N epochs too")
      ->check(whole_within(1, 100000))
      ->needs(save);
  CLI::Option* load = app.add_option("--load", to.load, "Start from the parameters of this file");
  app.add_option(
         "--resume",
         to.resume,
         "Go on where the run that wrote this file stopped, with its settings: to the last bit as "
         "if it had not stopped, with the same --threads (with convolutions on a CPU: with --threads 1)")
      ->excludes(load);
  app.add_flag("--evaluate", to.evaluate, "Do not train: judge the parameters of --load or --resume");
  app.add_option("--report", to.report, "Write a page about the run into this folder: curves, confusions, mistakes");
  app.add_option(
         "--export",
         to.export_to,
         "Write the trained network as PREFIX.json and PREFIX.npz, which the sample infer runs")
      ->type_name("PREFIX");
  for (const char* place : {"--save", "--load", "--resume", "--report", "--export"})
    app.get_option(place)->check(a_name());
  app.get_option("--evaluate")->excludes(save);
}

// As if `text` had been given on the command line, with all its checks.
void give(CLI::Option& option, const std::string& text, const std::string& file) {
  try {
    option.add_result(text);
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    require<FileError>(option.get_name() != "--model", [&] {
      return message("--resume ", file, ": is a checkpoint of the network '", text, "', which this program has not");
    });
    throw FileError(message(file, ": its settings cannot be: ", error.what()));
  }
}

}  // namespace

void TrainingOptions::add_to(CLI::App& to) {
  app = &to;
  add_device_flag(to, device);
  add_course_flags(to, *this);
  add_file_flags(to, *this);
  to.add_option("--threads", threads, "CPU workers (default: all)")->check(whole_within(1, 1024));
  to.add_option("--losses", losses, "Print the first N losses, one a line")->check(whole_within(0, 1000000));
  to.add_option("--log-every", log_every, "Seconds between lines where stdout is no terminal; 0: a line a step")
      ->check(finite_within({.low = 0, .high = 86400}))
      ->capture_default_str();
  to.parse_complete_callback([this] {
    if (evaluate && load.empty() && resume.empty())
      throw CLI::ValidationError("--evaluate", "needs --load FILE or --resume FILE: the parameters to judge");
    // A checkpoint's optimizer is not known yet; its settings are compared later.
    if (optimizer != "sgd" && resume.empty() && app->get_option("--momentum")->count() > 0)
      throw CLI::ValidationError("--momentum", "is of --optimizer sgd, not of " + optimizer);
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
        gluon::optimizer::SGDOptions{.learning_rate = rate(), .momentum = momentum, .weight_decay = weight_decay});
  }
  return std::make_unique<gluon::optimizer::Adam>(
      gluon::optimizer::AdamOptions{.learning_rate = rate(), .weight_decay = weight_decay});
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
    CLI::Option* option = app->get_option_no_throw(flag);
    if (option != nullptr && option->count() == 0) {
      give(*option, made_with, file);
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
          option == nullptr ? "" : " (leave the flag out to go on; --load takes the parameters alone)");
    });
  }
}

}  // namespace samples
