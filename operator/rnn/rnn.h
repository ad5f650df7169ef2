#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// What a step does: h = activation(W x + b + W' h + b'), long short-term memory, gated recurrent units.
enum class RnnMode : std::uint8_t { rnn_relu, rnn_tanh, lstm, gru };

/// Of rnn().
struct RnnOptions {
  RnnMode mode = RnnMode::lstm;
  std::int64_t hidden_size = 0;  // units of a layer and direction, at least one
  std::int64_t num_layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // of what a layer gives to the next one, while autograd::is_training()
};

/// How many parameters rnn() takes of inputs of that size. Throws ValueError where an option is out of range or they
/// cannot be counted.
SLUICE_API std::int64_t rnn_parameter_size(std::int64_t input_size, const RnnOptions& options);

/// Recurrent layers over all steps of x (T, N, C), T and C at least 1 (MXNet's RNN, npx.rnn). `parameters` is one array
/// of rnn_parameter_size(C, options): for each layer and direction the weights of its inputs (gates * hidden, C, or
/// what the layer below gives), then of its state (gates * hidden, hidden), after all weights the biases in the same
/// order. Gates lie in MXNet's order, which is PyTorch's: input, forget, cell, output of an LSTM, reset, update, new of
/// a GRU, whose reset gate stands behind the product with the state. `states`: none (zeros), or h and of an LSTM c,
/// each (layers * directions, N, hidden). Gives y (T, N, directions * hidden) and the states after the last step.
///
/// All inputs are of one floating type; float16 and bfloat16 add up in float32. On a CPU own kernels: all inputs as one
/// product, a step as one product and a pass over its gates; on a GPU cuDNN's, where it is there and takes the type.
/// Otherwise, and where gradients are recorded for gradients of their own, a composition. Throws ShapeError, DTypeError
/// and ValueError.
SLUICE_API Arrays
rnn(const NDArray& x,
    const NDArray& parameters,
    const Arrays& states,
    const RnnOptions& options,
    SourceLocation site = SourceLocation::current());

/// The same of sequences of several lengths (MXNet's RNN with use_sequence_length, PyTorch's packed sequences, whose
/// order is not asked for): `lengths` (N,), of any integer type, 0 to T. Steps of x from a sample's length on are not
/// looked at, may be NaN, and get gradients of 0; y is 0 there. The other direction begins with a sample's own last
/// step, and states are those after it: of length 0, those that there were.
///
/// On a CPU it is an operator of its own, `rnn_lengths`, whose products go over padding too. On a GPU lengths stay
/// where they are, which cuDNN does not look at: a layer and direction is one rnn() over all steps, turned over by
/// sequence_reverse() for the other direction, with a further input that has an LSTM's cells wait in padding; what it
/// gives is masked. Where cuDNN is not, it goes step by step, and nothing waits either way. Another length is an
/// IndexError at the wait, naming on a GPU sequence_reverse. Throws as the above.
SLUICE_API Arrays
rnn(const NDArray& x,
    const NDArray& parameters,
    const Arrays& states,
    const NDArray& lengths,
    const RnnOptions& options,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
