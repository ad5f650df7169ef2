#pragma once

#include <string>
#include <vector>

#include "samples/support/evaluation.h"

namespace samples {

/// Prints the confusion matrix, where the terminal is wide enough, and the classes that are told apart worst.
void print_summary(const Evaluation& evaluation, const std::vector<std::string>& classes);

}  // namespace samples
