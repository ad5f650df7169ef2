#pragma once

#include <cstdint>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/rnn/cell.h>

/// Cells whose products are convolutions (Gluon's rnn.Conv1DRNNCell and its kin; Shi and others, "Convolutional LSTM
/// network", 2015).
namespace sluice::gluon::rnn {

/// Of convolutional cells; a shape has an extent an axis, an empty one is what stands beside it.
struct ConvCellOptions {
  Shape i2h_pad = {};               // 0: zeros beside the input, on both sides
  Shape i2h_dilate = {};            // 1
  Shape h2h_dilate = {};            // 1
  std::string activation = "tanh";  // a name that nn::Activation knows
  DType dtype = float32;
  init::Initializer i2h_weight_initializer = {};  // empty: what initialize() is given
  init::Initializer h2h_weight_initializer = {};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
};

/// What convolutional cells share: of x (N, C, W), (N, C, H, W) or (N, C, D, H, W) and states, each (N,
/// hidden_channels) and the extents that the convolution of x gives, it gives the output, which is h, and the states
/// after it. The convolution of h keeps its extents: h2h_kernel is odd. Parameters: i2h_weight (gates *
/// hidden_channels, C, kernel), h2h_weight (gates * hidden_channels, hidden_channels, kernel), i2h_bias, h2h_bias.
class SLUICE_API ConvCell : public Cell {
 public:
  std::size_t num_states() const override;
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  /// Sizes of a cell of `axes` axes; `input_shape` is (C, ..). Throws ValueError for other numbers of extents and sizes
  /// out of range, and for an unknown activation.
  struct Sizes {
    const char* name;
    RnnMode kind;
    int axes;
    Shape input_shape;
    std::int64_t hidden_channels;
    Shape i2h_kernel, h2h_kernel;
  };
  ConvCell(const Sizes& sizes, const ConvCellOptions& options);

  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  NDArray convolved(
      const NDArray& x,
      const Parameter& weight,
      const Parameter& bias,
      const Shape& pad,
      const Shape& dilation,
      SourceLocation site) const;
  Arrays step(const NDArray& from_x, const NDArray& from_h, std::span<const NDArray> states, SourceLocation site) const;

  const char* name_;
  RnnMode kind_;
  std::int64_t hidden_;
  Shape input_, state_;  // of one sample
  Shape i2h_pad_, i2h_dilate_, h2h_pad_, h2h_dilate_;
  nn::detail::ActivationFunction activation_;
  Parameter &i2h_weight_, &h2h_weight_, &i2h_bias_, &h2h_bias_;
};

#define SLUICE_CONV_CELL(Name, kind, axes)                                                                        \
  class SLUICE_API Name : public ConvCell {                                                                       \
   public:                                                                                                        \
    /* Throws ValueError for sizes out of range and an unknown activation. */                                     \
    Name(                                                                                                         \
        Shape input_shape,                                                                                        \
        std::int64_t hidden_channels,                                                                             \
        Shape i2h_kernel,                                                                                         \
        Shape h2h_kernel,                                                                                         \
        const ConvCellOptions& options = {})                                                                      \
        : ConvCell({"rnn::" #Name, kind, axes, input_shape, hidden_channels, i2h_kernel, h2h_kernel}, options) {} \
  }

/// activation(conv(x) + conv(h)).
SLUICE_CONV_CELL(Conv1DRNNCell, RnnMode::rnn_tanh, 1);
SLUICE_CONV_CELL(Conv2DRNNCell, RnnMode::rnn_tanh, 2);
SLUICE_CONV_CELL(Conv3DRNNCell, RnnMode::rnn_tanh, 3);
/// LSTM's step, its products convolutions, `activation` where it has tanh; states h and c.
SLUICE_CONV_CELL(Conv1DLSTMCell, RnnMode::lstm, 1);
SLUICE_CONV_CELL(Conv2DLSTMCell, RnnMode::lstm, 2);
SLUICE_CONV_CELL(Conv3DLSTMCell, RnnMode::lstm, 3);
/// GRU's step, its products convolutions, `activation` where it has tanh.
SLUICE_CONV_CELL(Conv1DGRUCell, RnnMode::gru, 1);
SLUICE_CONV_CELL(Conv2DGRUCell, RnnMode::gru, 2);
SLUICE_CONV_CELL(Conv3DGRUCell, RnnMode::gru, 3);

#undef SLUICE_CONV_CELL

}  // namespace sluice::gluon::rnn
