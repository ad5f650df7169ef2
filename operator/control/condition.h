#pragma once

#include <sluice/engine/queue.h>

namespace sluice::control {

/// Gives the conditional node of `handle`, in the graph that the queue's stream is captured into, the value of a byte.
void set_condition_gpu(const Queue& queue, unsigned long long handle, const void* byte);

}  // namespace sluice::control
