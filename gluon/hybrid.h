#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/operator/graph/plan.h>

namespace sluice::gluon {

/// What is traced for batches of several sizes: extents, 2 or more, of the first axis that inputs share.
enum class BatchSizes : std::uint8_t {
  any,   // one program, where it is proven to be the same for all; another size gets a plan of its own without a trace
  each,  // a program for each size
};

/// How a hybridized block works. With plan.rounding `once` convolutions take batch norm, a residual and relu along, as
/// one kernel on a GPU: results differ from those without in the last bits, and by more where statistics have means
/// that are large beside their deviations (graph::Rounding).
/// plan.memory_budget is of a recorded call and its gradients together: what is computed again is not kept from the one
/// to the other. Then gradients read more parameters, and AutogradError tells a program that writes those in between.
struct HybridOptions {
  std::size_t most_plans = 8;  // of other shapes, types, devices, modes; the one used longest ago goes
  graph::PlanOptions plan = {};
  /// `any` calls forward twice when a program is traced, the second time for another size, to compare; not where it
  /// asked arrays of the batch for their extents, by shape(), size() or ndim(), since it may go on as these say. What
  /// an operator of your own does in its gradient or composition is compared at these two sizes alone.
  BatchSizes batch_sizes = BatchSizes::any;
};

}  // namespace sluice::gluon
