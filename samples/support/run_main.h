#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace samples {

/// Parses the command line and runs `body`: the exit code of a main. 2 for wrong flags, 1 for what `body` throws,
/// each with a message.
int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace samples
