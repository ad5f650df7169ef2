#pragma once

#include <cstddef>

#include <sluice/operator/graph/plan.h>

namespace sluice::gluon {

/// How a hybridized block works. With plan.rounding `once` convolutions take batch norm, a residual and relu along, as
/// one kernel on a GPU: results differ from those without in the last bits, and are nearer to what exact numbers give.
/// plan.memory_budget is of a recorded call and its gradients together: what is computed again is not kept from the one
/// to the other. Then gradients read more parameters, and AutogradError tells a program that writes those in between.
struct HybridOptions {
  std::size_t most_plans = 8;  // of other shapes, types, devices, modes; the one used longest ago goes
  graph::PlanOptions plan = {};
};

}  // namespace sluice::gluon
