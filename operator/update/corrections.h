#pragma once

#include <cstdint>
#include <limits>

#include <sluice/operator/update/rules.h>

namespace sluice {

/// A step so late that no rule corrects anything in it.
inline constexpr std::int64_t k_late_step = std::numeric_limits<std::int64_t>::max();

/// Does the rule correct its rates by the number of a parameter's step?
template <class Rule>
bool corrects_steps(const Rule& rule) noexcept;

/// How far Lbsgd's warming up is at that of all its updates: from 0 to 1.
inline double warm_part(const update_rules::Lbsgd& rule, double number) noexcept {
  const auto updates = static_cast<double>(rule.warmup_updates);
  return number < updates ? number / updates : 1;
}

/// Where steps are counted on the device: by what to multiply the rates that update_numbers() gives for k_late_step, in
/// their order, for each parameter to be at that step. `steps`: float64, one a parameter, counted from 1. Nobody waits.
/// Of rules that correct nothing undefined.
template <class Rule>
NDArray step_corrections(const Rule& rule, const NDArray& steps, SourceLocation site);

/// What a step of Nadam multiplies the learning rate by for gradient and mean, and epsilon by: all corrected by its
/// number; 1 of k_late_step.
struct NadamCorrections {
  double grad = 1;
  double mean = 1;
  double root = 1;
};
NadamCorrections nadam_corrections(const update_rules::Nadam& rule, std::int64_t step);

}  // namespace sluice
