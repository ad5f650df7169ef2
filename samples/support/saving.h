#pragma once

#include <cstdint>
#include <filesystem>

#include <sluice/sluice.h>

#include "samples/support/flags.h"

namespace samples {

/// --save of programs that train by an Estimator: a folder of checkpoints, from which the same command line goes on.
/// Ctrl-C ends such a training behind the batch under way, with a checkpoint if there is a folder.
class Saving {
 public:
  void add_to(CommandLine& command);
  /// From here on signals end the training in order. Throws sluice::FileError where the folder cannot be written.
  void begin() const;
  /// For Estimator::fit(), beside those of the program. `every_batches`: 0 writes a checkpoint an epoch.
  sluice::gluon::estimator::Handlers handlers(std::int64_t every_batches = 0) const;
  /// Behind fit(): throws Interrupted, which says what was saved, where a signal has come.
  void end_if_interrupted() const;

 private:
  std::filesystem::path folder_;
};

/// Ends a training behind the batch under way once a signal has come.
sluice::gluon::estimator::StoppingHandler stop_when_interrupted();

}  // namespace samples
