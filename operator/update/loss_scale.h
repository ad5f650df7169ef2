#pragma once

#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// How a scale of losses follows its steps (amp::GradScaler), and the attributes of that.
struct LossScaleRules {
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double max_scale = 16777216;
  double min_scale = 1.0 / 16384;
  std::int64_t growth_interval = 2000;  // clean steps in a row

  template <class V>
  void visit(V&& v) {
    v.field("growth_factor", growth_factor);
    v.field("backoff_factor", backoff_factor);
    v.field("max_scale", max_scale);
    v.field("min_scale", min_scale);
    v.field("growth_interval", growth_interval);
  }
};

/// The same in the scale's type, for CPU and GPU.
struct LossScaleStep {
  float growth, backoff, most, least;
  std::int64_t interval;

  explicit LossScaleStep(const LossScaleRules& rules) noexcept
      : growth(static_cast<float>(rules.growth_factor)),
        backoff(static_cast<float>(rules.backoff_factor)),
        most(static_cast<float>(rules.max_scale)),
        least(static_cast<float>(rules.min_scale)),
        interval(rules.growth_interval) {}

  SLUICE_HD void follow(bool taken, float& scale, std::int64_t& clean) const noexcept {
    const bool grows = taken && clean + 1 >= interval;
    const float larger = scale * growth, smaller = scale * backoff;
    if (grows)
      scale = larger < most ? larger : most;
    else if (!taken)
      scale = smaller > least ? smaller : least;
    clean = taken && !grows ? clean + 1 : 0;
  }
};

/// After a step with that guard (gradient_guard()): `clean`, one int64, counts it, or begins anew where it was left out
/// or the scale grows; `scale`, one float32, is written for the next step. One task that changes both in place, so that
/// a step that failed leaves them as they were, and takes no memory. Nobody waits. Throws ShapeError, DTypeError,
/// DeviceError, and ValueError for an interval below 1.
SLUICE_API void loss_scale_update(
    const NDArray& scale,
    const NDArray& clean,
    const NDArray& guard,
    const LossScaleRules& rules,
    SourceLocation site = SourceLocation::current());

extern const Operator k_loss_scale_update;
void loss_scale_gpu(const KernelCall& call);

}  // namespace sluice::detail
