#pragma once

#include <functional>

#include "samples/support/model.h"
#include "samples/support/options.h"

namespace samples {

/// The main of a training sample: gives `command` the flags, parses the command line, and trains what `make_model`
/// makes (called once, under an engine of its own, when all settings are known) on Fashion-MNIST. Validates after each
/// epoch; ends with the line `test accuracy: 0.NNNN`. Returns the exit code: 0; 1 for errors, for training that
/// diverged, for parameters that could not be saved where they should and for lines that could not be printed; 2 for
/// wrong flags; 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 141 where nobody reads what it prints any more.
int train_main(
    CommandLine& command, int argc, char** argv, TrainingOptions& options, const std::function<Model()>& make_model);

}  // namespace samples
