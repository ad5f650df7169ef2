#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/metric.h>
#include <sluice/gluon/optimizer.h>

namespace sluice::gluon::estimator {

/// All that training consists of between two batches. In the file (.npz) the network's parameters stand under their own
/// names, so that Block::load_parameters() takes them with ignore_extra; everything else under names that begin with
/// '@'.
struct TrainingState {
  std::filesystem::path path = {};  // where it was read
  std::map<std::string, NDArray> parameters = {}, loss_parameters = {};
  optimizer::Optimizer::States optimizer = {};
  double learning_rate = 0;           // where no schedule says it
  RandomBlock random = {};            // of the engine
  RandomBlock random_of_epoch = {};   // the same when the epoch began
  data::DataLoaderState loader = {};  // if has_loader
  bool has_loader = false;            // else batches are skipped
  Progress progress = {};
  std::int64_t epoch_size = -1;  // batches; -1: not known
  std::int64_t validations = 0;
  std::vector<metric::Figure> validation_figures = {};
  std::map<std::string, metric::Metric::State> metrics = {};  // of training, by place and name
  std::map<std::string, HandlerState> handlers = {};
  std::vector<LeftLoader> left_loaders = {};
  /// Parameters of network and loss that had no values yet, since nothing used them.
  std::vector<std::string> without_values = {}, loss_without_values = {};
};

/// Writes through a draft that goes to the disk and is renamed. The host waits for the values. Throws FileError;
/// ValueError for a parameter whose name begins with '@'.
SLUICE_API void write_state(const std::filesystem::path& path, const TrainingState& state);
/// Throws FileError for a file that is not there, damaged, or none of write_state(); UnsupportedError for one of
/// another format, a newer library's say.
SLUICE_API TrainingState read_state(const std::filesystem::path& path);

}  // namespace sluice::gluon::estimator
