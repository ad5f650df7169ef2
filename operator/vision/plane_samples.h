#pragma once

#include <sluice/operator/operator.h>
#include <sluice/operator/vision/grid_sample.h>

// Planes sampled at places in one go, on a CPU; elsewhere samples are made of taking and adding up (grid_sample.cpp).
namespace sluice::detail {

struct PlaneSamplesAttributes {
  bool nearest = false;

  template <class V>
  void visit(V&& v) {
    v.field("nearest", nearest);
  }
};

/// x, rows, columns -> y, as sampled() says, of one type, float32 or float64. Its gradients are two more: dy, rows,
/// columns, x (shape alone) -> dx, and dy, x, rows, columns -> drows, dcolumns.
extern const Operator k_plane_samples, k_plane_samples_backward, k_plane_samples_moves;

/// The samples of other operators.
NDArray sampled_by_takes(
    const NDArray& x, const NDArray& rows, const NDArray& columns, SampleMode mode, SourceLocation site);

void plane_samples_cpu(const KernelCall& call);
void plane_samples_backward_cpu(const KernelCall& call);
void plane_samples_moves_cpu(const KernelCall& call);

}  // namespace sluice::detail
