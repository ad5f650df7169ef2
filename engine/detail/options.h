#pragma once

#include <sluice/engine/options.h>

namespace sluice::detail {

/// Throws ValueError for a value that is none of its enumeration's.
void check_modes(const EngineOptions& options);

/// What the program says counts, then the environment, then the default. They throw ValueError for a variable that
/// names no enumerator.
LaunchMode launch_of(const EngineOptions& options);
Denormals denormals_of(const EngineOptions& options);

}  // namespace sluice::detail
