#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

// What the guard of gradients does, for CPU and GPU.
namespace sluice::detail {

struct GuardAttributes {
  double max_norm = -1;
  double rescale_grad = 1;
  bool skip_non_finite = false;
  bool numbers = false;  // the last input is those of a step

  template <class V>
  void visit(V&& v) {
    v.field("max_norm", max_norm);
    v.field("rescale_grad", rescale_grad);
    v.field("skip_non_finite", skip_non_finite);
    v.field("numbers", numbers);
  }
};

/// As kernels take them.
struct GuardSettings {
  double max_norm;
  double rescale;
  bool skip_non_finite;
  const double* numbers;  // not null: rescale is read there
};

struct GuardSums {
  double squares;
  double strange;  // how many are inf or nan
};

template <class C>
SLUICE_HD inline bool is_strange(C value) noexcept {
  return !(value - value == C{0});
}

SLUICE_HD inline void write_guard(const GuardSettings& settings, const GuardSums& sums, double* to) noexcept {
  const double rescale = settings.numbers == nullptr ? settings.rescale : *settings.numbers;
  const double norm = std::sqrt(sums.squares) * std::abs(rescale);
  to[0] = norm;
  to[1] = settings.max_norm >= 0 && norm > settings.max_norm ? settings.max_norm / norm : 1;
  to[2] = settings.skip_non_finite && sums.strange > 0 ? 0 : 1;
}

/// What one call is.
struct GuardWork {
  double max_norm = -1;
  double rescale = 1;
  bool skip_non_finite = false;
  const double* numbers = nullptr;
  std::span<const TensorView> arrays = {};

  GuardSettings settings() const noexcept { return {max_norm, rescale, skip_non_finite, numbers}; }
};
GuardWork guard_work(const KernelCall& call);

void guard_gpu(const KernelCall& call);

}  // namespace sluice::detail
