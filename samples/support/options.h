#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/mixed_precision.h"

namespace samples {

/// The flags that all training samples have. Defaults are the sample's.
struct TrainingOptions {
  std::string model;  // which network; a checkpoint names it
  sluice::Device device = sluice::num_gpus() > 0 ? sluice::gpu(0) : sluice::cpu();
  int epochs = 5;
  std::int64_t batch_size = 64;
  std::optional<double> learning_rate = {};  // none: the sample's for adam, 0.05 for sgd
  double adam_rate = 1e-3;                   // the sample's
  double final_rate = 1;                     // the last step's learning rate as a share of the first one's
  std::string optimizer = "adam";
  double momentum = 0.9;  // of sgd
  double weight_decay = 0;
  std::uint64_t seed = 1;
  std::string data = {};  // folder; "" = where the dataset usually is
  std::filesystem::path save = {}, load = {}, resume = {}, report = {}, export_to = {};
  int save_every = 0;  // epochs; 0 = at the end alone
  bool evaluate = false;
  bool hybrid = false;    // the same numbers, by graphs
  double budget = 0;      // of those, MiB for results; 0: however many
  double log_every = 10;  // seconds
  int threads = 0;        // 0: as many as the process may use
  int losses = 0;         // print the first so many
  std::string precision = "highest";
  MixedPrecision mixed = {};
  CommandLine* command = nullptr;  // knows which flags were given

  /// Gives `command` the flags. Both must outlive the parsing and its use.
  void add_to(CommandLine& command);
  double rate() const;
  /// Of graphs.
  sluice::graph::PlanOptions plan_options() const;
  std::unique_ptr<sluice::gluon::optimizer::Optimizer> make_optimizer() const;

  /// What the course of training follows from, by the names of the flags.
  std::map<std::string, std::string> settings() const;
  /// Takes the settings of the checkpoint `file` for the flags that were not given. Throws sluice::FileError where one
  /// is missing or no value of its flag, sluice::ValueError where a flag was given that says otherwise, naming both
  /// values; --epochs may.
  void adopt(const std::map<std::string, std::string>& settings, const std::string& file);
};

}  // namespace samples
