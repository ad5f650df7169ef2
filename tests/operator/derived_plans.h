#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include <sluice/engine/trace.h>
#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"

namespace sluice::test {

/// A program of arrays.
using Body = std::function<Arrays(const Arrays&)>;

inline graph::Graph traced(const Arrays& inputs, const Body& body) {
  graph::Tracer tracer;
  Arrays given;
  for (const NDArray& input : inputs)
    given.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return tracer.trace([&] { return body(given); });
}

/// How many nodes compute from constants alone.
inline std::int64_t derived(const graph::Graph& graph) {
  const std::vector<bool> nodes = derived_nodes(graph);
  return std::count(nodes.begin(), nodes.end(), true);
}

/// How many kept values a plan makes anew meanwhile.
template <class Call>
std::int64_t renewals(const Call& call) {
  Engine& engine = Engine::current();
  engine.start_trace();
  call();
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  return std::count_if(trace.events().begin(), trace.events().end(), [](const TraceEvent& event) {
    return event.name == "derived values";
  });
}

inline NDArray draw(const Shape& shape, std::uint64_t seed, Device device, DType dtype = float32) {
  return random_array(shape, seed, -1, 1, dtype).to(device);
}

}  // namespace sluice::test
