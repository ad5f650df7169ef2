#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/gluon/block.h>
#include <sluice/gluon/rnn/layer.h>
#include <sluice/operator/rnn/composed.h>

namespace sluice::gluon::rnn {

/// Of RNNCell, LSTMCell and GRUCell.
struct CellOptions {
  std::int64_t input_size = 0;  // 0: found at the first forward
  DType dtype = float32;
  init::Initializer i2h_weight_initializer = {};  // empty: what initialize() is given
  init::Initializer h2h_weight_initializer = {};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
};

/// What Cell::unroll() gives.
struct Unrolled {
  NDArray outputs;  // of all steps, in the layout of the inputs
  Arrays states;    // after the last one
};

/// A step of a recurrence: of x (N, C) and states it gives the output, then the states after it.
class SLUICE_API Cell : public Block {
 public:
  virtual std::size_t num_states() const = 0;
  /// Zeros for that many samples.
  virtual Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const = 0;
  /// `length` steps over inputs (N, T, C), or (T, N, C), from these states or from zeros. Throws ShapeError for inputs
  /// of another length, ValueError for another number of states, and as a call does.
  Unrolled unroll(
      std::int64_t length,
      const NDArray& inputs,
      const Arrays& begin_state = {},
      Layout layout = Layout::NTC,
      SourceLocation site = SourceLocation::current()) const;

 protected:
  /// What unroll() was given; `begin_state` may be empty.
  struct Steps {
    std::int64_t length;
    const NDArray& inputs;
    const Arrays& begin_state;
    Layout layout;
    SourceLocation site;
    int axis() const noexcept { return layout == Layout::TNC ? 0 : 1; }  // of the steps
  };
  /// What unroll() does: one step after the other, unless a cell knows better.
  virtual Unrolled run(const Steps& steps) const;
};

/// One step of a recurrent layer: cell({x, h}), of an LSTM cell({x, h, c}), of x (N, C) and states (N, hidden_size)
/// gives the output, which is h, and the states after it. Parameters: i2h_weight (gates * hidden, C), h2h_weight (gates
/// * hidden, hidden), i2h_bias, h2h_bias.
class SLUICE_API RecurrentCell : public Cell {
 public:
  std::size_t num_states() const override;
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  /// Throws ValueError for sizes out of range.
  RecurrentCell(const char* name, RnnMode kind, std::int64_t hidden_size, const CellOptions& options);

  Arrays forward_all(std::span<const NDArray> inputs) const override;
  /// The products with the inputs as one.
  Unrolled run(const Steps& steps) const override;

 private:
  sluice::detail::RecurrentWeights weights_for(const NDArray& x) const;
  void check_states(const Shape& x, std::int64_t samples, std::span<const NDArray> states) const;

  const char* name_;
  RnnMode kind_;
  std::int64_t hidden_;
  Parameter &i2h_weight_, &h2h_weight_, &i2h_bias_, &h2h_bias_;
};

/// A step of RNN (Gluon's rnn.RNNCell, PyTorch nn.RNNCell).
class SLUICE_API RNNCell : public RecurrentCell {
 public:
  explicit RNNCell(std::int64_t hidden_size, CellOptions options = {}, Activation activation = Activation::tanh);
};

/// A step of LSTM (Gluon's rnn.LSTMCell, PyTorch nn.LSTMCell).
class SLUICE_API LSTMCell : public RecurrentCell {
 public:
  explicit LSTMCell(std::int64_t hidden_size, CellOptions options = {});
};

/// Of LSTMPCell.
struct LSTMPCellOptions {
  std::int64_t input_size = 0;  // 0: found at the first forward
  DType dtype = float32;
  init::Initializer i2h_weight_initializer = {};  // empty: what initialize() is given
  init::Initializer h2h_weight_initializer = {};
  init::Initializer h2r_weight_initializer = {};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
};

/// A step of LSTM whose output is projected to fewer units (Gluon's rnn.LSTMPCell, PyTorch nn.LSTM with proj_size; Sak
/// and others, 2014): states h (N, projection_size) and c (N, hidden_size). Parameters: those of LSTMCell, h2h_weight
/// (4
/// * hidden, projection), and h2r_weight (projection, hidden).
class SLUICE_API LSTMPCell : public Cell {
 public:
  /// Throws ValueError for sizes out of range.
  LSTMPCell(std::int64_t hidden_size, std::int64_t projection_size, LSTMPCellOptions options = {});
  std::size_t num_states() const override { return 2; }
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  std::int64_t hidden_, projection_;
  Parameter &i2h_weight_, &h2h_weight_, &h2r_weight_, &i2h_bias_, &h2h_bias_;
};

/// A step of GRU (Gluon's rnn.GRUCell, PyTorch nn.GRUCell).
class SLUICE_API GRUCell : public RecurrentCell {
 public:
  explicit GRUCell(std::int64_t hidden_size, CellOptions options = {});
};

/// Of dynamic_unroll().
struct DynamicUnrollOptions {
  Layout layout = Layout::TNC;
  double drop_inputs = 0;     // share of entries of x that are dropped, in training, the same ones at each step
  double drop_outputs = 0;    // of outputs
  NDArray valid_length = {};  // (N,), of any integer type: steps of each sample that count; undefined: all
};

/// All steps of a cell as foreach(), which a graph of many steps holds once (Gluon's rnn.dynamic_unroll). States begin
/// as given, or as zeros. With valid_length outputs behind a sample's last step are 0, and states are those after it; a
/// length beyond the steps is all of them. Throws ShapeError for inputs that are not (T, N, C..), or (N, T, C..), of a
/// step or more, ValueError for shares outside [0, 1], and as a call does.
SLUICE_API Unrolled dynamic_unroll(
    const Cell& cell,
    const NDArray& inputs,
    const Arrays& begin_state = {},
    const DynamicUnrollOptions& options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::gluon::rnn
