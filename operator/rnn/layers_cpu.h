#pragma once

#include <cstdint>

#include <sluice/operator/rnn/problem.h>

namespace sluice::detail {

/// Where one direction of one layer has its arrays. The units of a step lie `y_step` apart from sample to sample.
template <class T>
struct RnnPass {
  std::int64_t layer = 0, direction = 0;
  const T* parameters = nullptr;
  const T* x = nullptr;                        // (T * N, input_of(layer))
  const T *h0 = nullptr, *c0 = nullptr;        // (N, hidden), null: zeros
  T* y = nullptr;                              // of this direction, in (T * N, width())
  T *gates = nullptr, *cells = nullptr;        // kept: (T, N, kept_gates() * hidden) and (T, N, hidden)
  const T* dy = nullptr;                       // as y
  T *carry = nullptr, *carry_cells = nullptr;  // gradients of the last states, which become those of the first
  T *dx = nullptr, *dparameters = nullptr;
  bool adds_to_dx = false;
};

/// Where they lie in what the forward pass keeps.
template <class T>
struct RnnKept {
  const RnnProblem& p;
  T* all;

  std::int64_t points() const noexcept { return p.steps * p.batch; }
  std::int64_t of_direction() const noexcept {
    return points() * p.hidden * (p.kept_gates() + (p.has_cells() ? 1 : 0));
  }
  T* gates(std::int64_t layer, std::int64_t direction) const noexcept {
    return all + (layer * p.directions + direction) * of_direction();
  }
  T* cells(std::int64_t layer, std::int64_t direction) const noexcept {
    return gates(layer, direction) + points() * p.hidden * p.kept_gates();
  }
  /// Of a layer but the last.
  T* y(std::int64_t layer) const noexcept {
    return all + p.layers * p.directions * of_direction() + layer * points() * p.width();
  }
};

/// All steps forward; `keeps` is false where `gates` are nobody's later and `cells` have room for two steps.
template <class T>
void rnn_pass_forward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, bool keeps);
template <class T>
void rnn_pass_backward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass);

}  // namespace sluice::detail
