#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// The arithmetic of recurrent layers and cells.
namespace sluice::gluon::detail {

enum class RecurrentKind : std::uint8_t { relu, tanh, lstm, gru };

/// Rows of a weight for each hidden unit, and arrays that go from step to step.
constexpr std::int64_t gates_of(RecurrentKind kind) noexcept {
  return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1;
}
constexpr std::size_t states_of(RecurrentKind kind) noexcept {
  return kind == RecurrentKind::lstm ? 2 : 1;
}

/// Of which so many gates can be counted.
constexpr bool is_hidden_size(std::int64_t hidden) noexcept {
  return hidden >= 1 && hidden < std::int64_t{1} << 31;
}

/// Weights (gates * hidden, in) and (gates * hidden, hidden), biases (gates * hidden,); gates in MXNet's order, which
/// is PyTorch's: input, forget, cell, output of an LSTM, reset, update, new of a GRU.
struct RecurrentWeights {
  NDArray i2h_weight, h2h_weight, i2h_bias, h2h_bias;
};

/// What all steps take of their inputs (.., in), as one product: (.., gates * hidden).
NDArray input_product(RecurrentKind kind, const NDArray& x, const RecurrentWeights& weights, SourceLocation site);
/// The states, h first, after a step with that product (N, gates * hidden) and those states, each (N, hidden).
Arrays recurrent_step(
    RecurrentKind kind,
    const NDArray& product,
    const Arrays& states,
    const RecurrentWeights& weights,
    SourceLocation site);

struct RecurrentResult {
  NDArray outputs;  // (T, N, hidden)
  Arrays states;    // after the last step
};

/// All steps of x (T, N, in), T >= 1, from the last to the first if `backwards`. Without states these are zeros.
RecurrentResult recurrent_steps(
    RecurrentKind kind,
    const NDArray& x,
    const Arrays& states,
    const RecurrentWeights& weights,
    bool backwards,
    SourceLocation site);

}  // namespace sluice::gluon::detail
