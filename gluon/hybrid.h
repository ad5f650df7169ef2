#pragma once

#include <cstddef>

#include <sluice/operator/graph/plan.h>

namespace sluice::gluon {

/// How a hybridized block works. With plan.rounding `once` convolutions take batch norm, a residual and relu along, as
/// one kernel on a GPU: results differ from those without in the last bits, and by more where statistics have means
/// that are large beside their deviations (graph::Rounding).
struct HybridOptions {
  std::size_t most_plans = 8;  // of other shapes, types, devices, modes; the one used longest ago goes
  graph::PlanOptions plan = {};
};

}  // namespace sluice::gluon
