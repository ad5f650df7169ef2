#pragma once

#include <algorithm>
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
  const std::int64_t* lengths = nullptr;  // of the samples; null: all steps

  std::int64_t length(const RnnProblem& p, std::int64_t sample) const noexcept {
    return lengths == nullptr ? p.steps : lengths[sample];
  }
  /// Whether a sequence of that length, which is longer than `step`, begins with that step as this direction goes.
  bool begins_with(std::int64_t step, std::int64_t length) const noexcept {
    return direction == 0 ? step == 0 : step + 1 == length;
  }
  bool ends_with(std::int64_t step, std::int64_t length) const noexcept {
    return direction == 0 ? step + 1 == length : step == 0;
  }
};

/// Zeros in (T, N, width) beyond the lengths, of which there may be none.
template <class T>
void clear_padding(const RnnProblem& p, const std::int64_t* lengths, T* all, std::int64_t width) {
  for (std::int64_t n = 0; lengths != nullptr && n < p.batch; ++n) {
    for (std::int64_t step = lengths[n]; step < p.steps; ++step)
      std::fill_n(all + (step * p.batch + n) * width, width, T{});
  }
}

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
