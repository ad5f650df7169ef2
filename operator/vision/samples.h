#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

// Planes at places between their pixels, which grids and moved taps are made of.
namespace sluice {

struct SamplesAttributes {
  bool nearest = false;

  template <class V>
  void visit(V&& v) {
    v.field("nearest", nearest);
  }
};

namespace detail {

extern const Operator k_plane_samples, k_plane_samples_backward, k_plane_slopes;

// x, rows, columns -> y
void plane_samples_cpu(const KernelCall& call);
void plane_samples_gpu(const KernelCall& call);
// dy, rows, columns, x (shape alone) -> dx
void plane_samples_backward_cpu(const KernelCall& call);
void plane_samples_backward_gpu(const KernelCall& call);
// dy, x, rows, columns -> gradients of rows and of columns
void plane_slopes_cpu(const KernelCall& call);
void plane_slopes_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
