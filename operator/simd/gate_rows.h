#pragma once

#include <cstdint>

#include <sluice/operator/rnn/rnn.h>

namespace sluice::simd {

/// n neighbouring units of one sample in one step of a recurrent layer. Gate g of them begins at `from_x + g * x_step`,
/// and so on. `kept`, `cells`, `from_x` may be one another's memory where they name the same numbers.
template <class T>
struct GateStep {
  std::int64_t n = 0;
  const T* from_x = nullptr;  // what the gates take of the inputs, bias included
  std::int64_t x_step = 0;
  const T* from_h = nullptr;  // and of the state
  std::int64_t h_step = 0;
  T* kept = nullptr;  // an LSTM's gates; a GRU's and the product with the state that its reset gate is before; or null
  std::int64_t kept_step = 0;
  const T* before = nullptr;  // the state: an LSTM's c, a GRU's h; null: zeros
  T* cells = nullptr;         // an LSTM's next c
  T* y = nullptr;             // the next h
};

/// The same going back.
template <class T>
struct GateStepBack {
  std::int64_t n = 0;
  const T* head = nullptr;    // the gradient of y from outside
  const T* from_h = nullptr;  // and what comes through the gates of the next step; null: nothing
  T* carry = nullptr;         // what else comes to h; becomes what goes on to the h before
  T* carry_cells = nullptr;   // the same of an LSTM's c
  const T* kept = nullptr;
  std::int64_t kept_step = 0;
  const T* before = nullptr;
  const T* cells = nullptr;
  const T* y = nullptr;
  T* to_x = nullptr;  // gradients of the gates, as the inputs see them
  std::int64_t x_step = 0;
  T* to_h = nullptr;  // and the state: of a GRU alone they differ
  std::int64_t h_step = 0;
};

/// Of float, in the vectors of simd::target().
struct GateRows {
  void (*forward)(RnnMode mode, const GateStep<float>& step);
  void (*backward)(RnnMode mode, const GateStepBack<float>& step);
};

/// Null if there are none: the plain loops serve.
const GateRows* gate_rows() noexcept;

}  // namespace sluice::simd
