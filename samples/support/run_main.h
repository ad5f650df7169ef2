#pragma once

#include <functional>

#include "samples/support/flags.h"

namespace samples {

/// Parses the command line and runs `body`: the exit code of a main. 2 for wrong flags, 1 for what `body` throws,
/// interrupt_code() for Interrupted, each with a message.
int run_main(CommandLine& command, int argc, char** argv, const std::function<int()>& body);

}  // namespace samples
