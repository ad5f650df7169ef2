#pragma once

#include <sluice/engine/engine.h>

namespace samples {

/// Fills memory of the first GPU and brings it back, by three tasks on streams that the engine chooses. Throws
/// sluice::Error if the bytes are wrong. In builds with CUDA only.
void gpu_tasks(sluice::Engine& engine);

}  // namespace samples
