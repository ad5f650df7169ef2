#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

// The kernels of this family.
namespace sluice::detail {

struct ScanAttributes {
  std::int64_t axis = 0;
  bool reverse = false;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("reverse", reverse);
  }
};

// x -> y
void cumsum_cpu(const KernelCall& call);
void cumsum_gpu(const KernelCall& call);
void cumprod_cpu(const KernelCall& call);
void cumprod_gpu(const KernelCall& call);
// x -> values, indices
void cummax_cpu(const KernelCall& call);
void cummax_gpu(const KernelCall& call);
void cummin_cpu(const KernelCall& call);
void cummin_gpu(const KernelCall& call);
// a, b -> y
void linear_recurrence_cpu(const KernelCall& call);
void linear_recurrence_gpu(const KernelCall& call);
// places, dy -> dx: each entry gets the sum of the heads whose place it is; equal places stand side by side
void add_runs_cpu(const KernelCall& call);
void add_runs_gpu(const KernelCall& call);

}  // namespace sluice::detail
