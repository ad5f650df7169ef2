#pragma once

#include <functional>

#include <sluice/sluice.h>

#include "samples/support/options.h"

namespace samples {

using Loss = sluice::gluon::loss::Loss;

/// Makes an engine of its own for the flags, then the network by `make_network` on it, trains it on Fashion-MNIST
/// (or the files of --data) and validates after each epoch. Ends with the line `test accuracy: 0.NNNN`. The exit code
/// of a main: 0, or 130 after Ctrl-C.
int train(
    const TrainingOptions& options,
    const std::function<sluice::gluon::nn::Sequential()>& make_network,
    const Loss& loss);

}  // namespace samples
