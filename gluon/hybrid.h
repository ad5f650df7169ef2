#pragma once

#include <cstddef>

#include <sluice/operator/graph/plan.h>

namespace sluice::gluon {

/// How a hybridized block works.
struct HybridOptions {
  std::size_t most_plans = 8;  // of other shapes, types, devices, modes; the one used longest ago goes
  graph::PlanOptions plan = {};
};

}  // namespace sluice::gluon
