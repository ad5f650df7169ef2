#pragma once

#include <optional>

#include <sluice/operator/rnn/composed.h>

// Long short-term memory whose output is projected to fewer units, and whose cells are clipped.
namespace sluice::gluon::detail {

/// Bounds of an LSTM's cells; with `nan` a NaN becomes the lower one.
struct StateClip {
  std::optional<double> min = {}, max = {};
  bool nan = false;

  bool is_set() const noexcept { return min.has_value(); }
};

/// Throws ValueError, which names `layer`, unless both bounds are given or none, and the lower one is no larger.
void check_state_clip(const char* layer, const StateClip& clip);

/// Weights as those of an LSTM with h2h_weight (4 * hidden, projection), and h2r_weight (projection, hidden), which may
/// be undefined: then h is as wide as the cells.
struct ProjectedWeights {
  sluice::detail::RecurrentWeights gates;
  NDArray h2r_weight;
  StateClip clip;
};

/// h and c after a step with the product of its input (N, 4 * hidden) and h (N, projection), c (N, hidden).
Arrays projected_step(
    const NDArray& product, const Arrays& states, const ProjectedWeights& weights, SourceLocation site);
/// As sluice::detail::recurrent_steps().
sluice::detail::RecurrentResult projected_steps(
    const NDArray& x,
    const Arrays& states,
    const ProjectedWeights& weights,
    bool backwards,
    SourceLocation site,
    const NDArray& padding = {});

}  // namespace sluice::gluon::detail
