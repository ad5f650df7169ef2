#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <sluice/sluice.h>

#include "samples/support/history.h"

namespace samples {

/// All that a run consists of between two steps: an Estimator's TrainingState, and beside it what the samples show.
struct Checkpoint {
  using Arrays = std::map<std::string, sluice::NDArray>;

  sluice::gluon::estimator::TrainingState state;
  std::map<std::string, std::string> settings;  // flags and values, TrainingOptions::settings()
  std::uint64_t images = 0;                     // checksum() of the images trained on
  double first_loss = 0;                        // of the run's first step
  double seconds = 0;                           // of the whole run
  Sums epoch;                                   // of the epoch under way
  double epoch_seconds = 0;
  History history;  // epochs that are over
};

/// Writes beside `path` and renames: an older file stays whole until the new one is. The host waits for the values.
/// Throws sluice::FileError naming the file.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// Throws sluice::FileError naming the file and what it lacks, sluice::UnsupportedError for another format.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// Gives `net` the parameters in `arrays`, of the file `path`; a name that the network or the file lacks is a
/// sluice::ValueError.
void set_parameters(
    sluice::gluon::Block& net, const Checkpoint::Arrays& arrays, const std::filesystem::path& path, sluice::Device on);
/// The parameters of any .npz, without what a checkpoint holds beside them. Throws sluice::FileError.
Checkpoint::Arrays read_parameters(const std::filesystem::path& path);

}  // namespace samples
