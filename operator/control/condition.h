#pragma once

#include <cstdint>

#include <sluice/engine/queue.h>
#include <sluice/operator/operator.h>

namespace sluice::control {

/// Gives the conditional node of `handle`, in the graph that the queue's stream is captured into, the value of a byte.
void set_condition_gpu(const Queue& queue, unsigned long long handle, const void* byte);

/// How many turns were taken now, and how many are at most.
struct TurnAttributes {
  std::int64_t taken = 0, most = 0;

  template <class V>
  void visit(V&& v) {
    v.field("taken", taken);
    v.field("most", most);
  }
};
// Whether the condition holds (bool), turns (int64, counted in place) -> whether there is another turn
void count_turn_gpu(const KernelCall& call);

}  // namespace sluice::control
