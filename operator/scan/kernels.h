#pragma once

#include <cstdint>
#include <optional>

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/own_defaults.h>

// The kernels of this family.
namespace sluice::detail {

struct ScanAttributes {
  std::optional<std::int64_t> axis = 0;  // none: all elements as one row; in its normal form there is one
  bool reverse = false;

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("reverse", reverse);
  }
};

/// Of sums and products, which take all elements where no axis is named.
constexpr ScanAttributes all_elements() {
  return {.axis = std::nullopt};
}

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
