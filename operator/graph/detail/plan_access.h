#pragma once

#include <sluice/engine/export.h>
#include <sluice/operator/graph/plan.h>

namespace sluice::graph {

/// What benchmarks need of a plan, and users do not.
struct SLUICE_API PlanAccess {
  /// Seconds that the CUDA graphs of the last run take without the engine, launched so often one after the other. What
  /// the graph writes is written as often; results of that run are to be held, and nothing else is at work. 0 unless
  /// all of it is captured. Blocks. Not beside runs.
  static double seconds_alone(const Plan& plan, int launches);
};

}  // namespace sluice::graph
