#pragma once

#include <type_traits>

#include <sluice/operator/elementwise/math.h>
#include <sluice/operator/simd/gate_rows.h>

namespace sluice::detail {

/// The gates of a step in plain loops.
namespace plain_gates {

template <class T>
inline T squashed(T x) {
  return math::tanh(x);
}
template <class T>
inline T opened(T x) {
  return math::sigmoid(x);
}
template <class T>
inline T select(bool condition, T a, T b) {
  return condition ? a : b;
}

#define GATE_INLINE inline
#define GATE_LAMBDA
#include <sluice/operator/rnn/gates.def>
#undef GATE_INLINE
#undef GATE_LAMBDA

template <class T>
constexpr auto k_at = [](const T* from) { return *from; };
template <class T>
constexpr auto k_put = [](T number, T* to) { *to = number; };

}  // namespace plain_gates

template <class T>
void step_gates(RnnMode mode, const simd::GateStep<T>& step) {
  if constexpr (std::is_same_v<T, float>) {
    if (const simd::GateRows* const rows = simd::gate_rows())
      return rows->forward(mode, step);
  }
  for (std::int64_t i = 0; i < step.n; ++i)
    plain_gates::forward_units<T>(mode, step, i, plain_gates::k_at<T>, plain_gates::k_put<T>);
}

template <class T>
void step_gates_back(RnnMode mode, const simd::GateStepBack<T>& step) {
  if constexpr (std::is_same_v<T, float>) {
    if (const simd::GateRows* const rows = simd::gate_rows())
      return rows->backward(mode, step);
  }
  for (std::int64_t i = 0; i < step.n; ++i)
    plain_gates::backward_units<T>(mode, step, i, plain_gates::k_at<T>, plain_gates::k_put<T>);
}

}  // namespace sluice::detail
