#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/projected_lstm.h>
#include <sluice/operator/rnn/composed.h>

namespace sluice::gluon::rnn {

/// How sequences lie: steps, then samples, or the other way round.
enum class Layout : std::uint8_t { TNC, NTC };
enum class Activation : std::uint8_t { relu, tanh };

/// Of RNN, LSTM and GRU.
struct RecurrentOptions {
  std::int64_t num_layers = 1;
  Layout layout = Layout::TNC;
  double dropout = 0;  // of what a layer gives to the next one, in training
  bool bidirectional = false;
  bool use_sequence_length = false;  // the last array of a call are the lengths of the sequences
  std::int64_t input_size = 0;       // 0: found at the first forward
  DType dtype = float32;
  init::Initializer i2h_weight_initializer = {};  // empty: what initialize() is given
  init::Initializer h2h_weight_initializer = {};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  // Of LSTM alone:
  std::int64_t projection_size = 0;  // units of h, which W_r makes of the hidden_size ones (Sak et al., 2014); 0: all
  init::Initializer h2r_weight_initializer = {};
  std::optional<double> state_clip_min = {}, state_clip_max = {};  // bounds of the cells after each step
  bool state_clip_nan = false;                                     // with bounds, a NaN in a cell becomes the lower one
};

/// What RNN, LSTM and GRU share. x (T, N, C), or (N, T, C), gives (T, N, H), or (N, T, H), H twice the hidden size of
/// bidirectional ones. Called with the states too, each (num_layers * directions, N, hidden_size), it gives beside the
/// output the states after the last step: layer({x, h}), layer({x, h, c}) of an LSTM. Without them they are zeros.
/// With use_sequence_length a call ends with lengths (N,), of any integer type, 0 to T: layer({x, lengths}), layer({x,
/// h, c, lengths}). Then outputs beyond a length are 0, states are those after a sequence's own last step, with which
/// the other direction begins, and what stands in x beyond a length reaches nothing (rnn() says how). Another length is
/// an IndexError at the wait.
/// Parameters are named as in Gluon: l0_i2h_weight (gates * hidden, C), l0_h2h_weight (gates * hidden, hidden),
/// l0_i2h_bias, l0_h2h_bias, r0_.. of the other direction, l1_.. of the next layer.
///
/// An LSTM with projection_size has outputs and states h of that many units, cells of hidden_size, and parameters
/// l0_h2r_weight (projection, hidden); l0_h2h_weight is (4 * hidden, projection). It and one with a clip are composed
/// of operators, a step after the other; a length outside 0 to T counts there as the nearest one.
///
/// A call throws ValueError for another number of arrays, ShapeError and DTypeError for arrays that do not fit.
///
/// A layer is one call of rnn(), with dropout in training one a layer, as it is where there is no kernel a composition.
class SLUICE_API RecurrentLayer : public Block {
 public:
  /// Zeros for that many samples.
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const;

 protected:
  /// Throws ValueError for sizes out of range, a dropout outside [0, 1], bounds that are not in order, and for options
  /// that are an LSTM's alone.
  RecurrentLayer(const char* name, RnnMode kind, std::int64_t hidden_size, const RecurrentOptions& options);

  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  struct Direction {
    Parameter *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias;
    Parameter* h2r_weight;  // null: h is not projected
  };
  void add_parameters(const RecurrentOptions& options);
  bool is_composed() const noexcept { return weights_[0].h2r_weight != nullptr || clip_.is_set(); }
  std::int64_t units_of(std::size_t state) const noexcept { return state == 0 ? projection_ : hidden_; }
  /// What comes before lengths, if there are any.
  std::span<const NDArray> without_lengths(std::span<const NDArray> inputs) const;
  void check_inputs(std::span<const NDArray> inputs) const;
  void check_lengths(const NDArray& lengths, std::int64_t samples) const;
  /// Completes parameters of an input size that was not known, and checks types.
  void prepare(std::span<const NDArray> inputs) const;
  NDArray joined_parameters() const;
  Arrays forward_composed(const NDArray& x, const Arrays& states, const NDArray& lengths) const;

  const char* name_;
  RnnMode kind_;
  std::int64_t hidden_, projection_;  // alike where there is no projection
  gluon::detail::StateClip clip_;
  std::size_t layers_, directions_;
  Layout layout_;
  double dropout_;
  bool uses_lengths_;
  std::vector<Direction> weights_;  // layer by layer
};

/// h = activation(W x + b + W' h + b') (Gluon's rnn.RNN, PyTorch nn.RNN, whose activation is tanh).
class SLUICE_API RNN : public RecurrentLayer {
 public:
  explicit RNN(std::int64_t hidden_size, RecurrentOptions options = {}, Activation activation = Activation::relu);
};

/// Long short-term memory (Gluon's rnn.LSTM, PyTorch nn.LSTM): gates input, forget, cell, output; states h and c.
class SLUICE_API LSTM : public RecurrentLayer {
 public:
  explicit LSTM(std::int64_t hidden_size, RecurrentOptions options = {});
};

/// Gated recurrent units (Gluon's rnn.GRU, PyTorch nn.GRU): gates reset, update, new, the reset gate behind the product
/// with h.
class SLUICE_API GRU : public RecurrentLayer {
 public:
  explicit GRU(std::int64_t hidden_size, RecurrentOptions options = {});
};

}  // namespace sluice::gluon::rnn
