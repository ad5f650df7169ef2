#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/rnn/rnn.h>

// The arithmetic of recurrent layers and cells, as operators.
namespace sluice::detail {

/// Rows of a weight for each hidden unit, and arrays that go from step to step.
constexpr std::int64_t gates_of(RnnMode mode) noexcept {
  return mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1;
}
constexpr std::size_t states_of(RnnMode mode) noexcept {
  return mode == RnnMode::lstm ? 2 : 1;
}

/// Of which so many gates can be counted.
constexpr bool is_hidden_size(std::int64_t hidden) noexcept {
  return hidden >= 1 && hidden < std::int64_t{1} << 31;
}

/// Weights (gates * hidden, in) and (gates * hidden, hidden), biases (gates * hidden,); gates in rnn()'s order.
struct RecurrentWeights {
  NDArray i2h_weight, h2h_weight, i2h_bias, h2h_bias;
};

/// What all steps take of their inputs (.., in), as one product: (.., gates * hidden).
NDArray input_product(RnnMode mode, const NDArray& x, const RecurrentWeights& weights, SourceLocation site);
/// The states, h first, after a step with that product (N, gates * hidden) and those states, each (N, hidden).
Arrays recurrent_step(
    RnnMode mode, const NDArray& product, const Arrays& states, const RecurrentWeights& weights, SourceLocation site);

struct RecurrentResult {
  NDArray outputs;  // (T, N, hidden)
  Arrays states;    // after the last step
};

/// All steps of x (T, N, in), T >= 1, from the last to the first if `backwards`. Without states these are zeros. Where
/// there is `padding` (T, N, 1), of bool, its true steps leave states as they are; what outputs are there is open.
RecurrentResult recurrent_steps(
    RnnMode mode,
    const NDArray& x,
    const Arrays& states,
    const RecurrentWeights& weights,
    bool backwards,
    SourceLocation site,
    const NDArray& padding = {});

struct RnnAttributes;
struct RnnProblem;

/// The arrays of one layer and direction out of all parameters.
RecurrentWeights recurrent_weights(
    const NDArray& parameters, const RnnProblem& p, std::int64_t layer, std::int64_t direction, SourceLocation site);

/// All steps of x by one direction of a layer.
using DirectionOfSteps = std::function<RecurrentResult(
    const NDArray& x, const Arrays& before, const RecurrentWeights& weights, bool backwards)>;
/// Layer by layer, `run` for each direction: y, then the states after the last steps, stacked.
Arrays over_layers(
    const RnnProblem& p,
    NDArray x,
    const NDArray& parameters,
    std::span<const NDArray> states,
    const DirectionOfSteps& run,
    SourceLocation site);

/// All layers by recurrent_steps(): the results of rnn() of inputs as its operator takes them.
Arrays rnn_composed(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site);
/// The same of inputs as `rnn_lengths` takes them, on any device; a length outside 0 .. T is sequence_reverse()'s
/// error.
Arrays rnn_lengths_composed(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site);
/// It chooses one of these: by recurrent_steps(), or by calls of rnn() over all steps, one a layer and direction, for
/// libraries that do not look at lengths which are on a device.
Arrays rnn_lengths_by_steps(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site);
Arrays rnn_lengths_by_runs(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site);
/// Gradients of those for results' heads `heads`, y's first, undefined where there is none; recorded themselves.
Arrays rnn_recorded_gradients(const GradientCall& call);

}  // namespace sluice::detail
