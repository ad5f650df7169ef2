#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include <sluice/sluice.h>

#include "samples/support/run_main.h"

namespace samples {

/// The flags that all training samples have. Defaults are the sample's.
struct TrainingOptions {
  sluice::Device device = sluice::num_gpus() > 0 ? sluice::gpu(0) : sluice::cpu();
  int epochs = 5;
  std::int64_t batch_size = 64;
  double learning_rate = 0;  // 0: the sample's for adam, 0.05 for sgd
  double adam_rate = 1e-3;   // the sample's
  double final_rate = 1;     // the last step's learning rate as a share of the first one's
  std::string optimizer = "adam";
  double momentum = 0.9;  // of sgd
  double weight_decay = 0;
  std::uint64_t seed = 1;
  std::string data;  // folder; "" = where the dataset usually is
  std::filesystem::path save, load;
  int threads = 0;  // 0: as many as the process may use
  int losses = 0;   // print the first so many
  std::string precision = "highest";

  /// Gives `app` the flags.
  void add_to(CLI::App& app);
  std::unique_ptr<sluice::gluon::optimizer::Optimizer> make_optimizer() const;
};

/// Gives `app` the flag --device, which sets `device`.
void add_device_flag(CLI::App& app, sluice::Device& device);

}  // namespace samples
