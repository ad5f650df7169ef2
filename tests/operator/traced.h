#pragma once

// The same function by hand and as a graph, for operators that are made of others.
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/support/compare.h"

namespace sluice::test {

/// Empty if a plan of f gives, to the last bit, what f gives.
inline std::string traced_differences(
    const std::function<NDArray(const std::vector<NDArray>&)>& f, const std::vector<NDArray>& inputs) {
  graph::Tracer tracer;
  std::vector<NDArray> abstract;
  for (const NDArray& input : inputs)
    abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  graph::Plan plan(tracer.trace([&] { return Arrays{f(abstract)}; }));
  const Arrays results = plan.run(inputs);
  return differences(results[0], f(inputs), {0, 0});
}

}  // namespace sluice::test
