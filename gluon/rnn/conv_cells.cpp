#include <sluice/engine/error.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/rnn/conv_cells.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/volume.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::rnn {

using sluice::detail::unseen_shape;

namespace {

Shape given_or(const Shape& given, int axes, std::int64_t usual) {
  return given.ndim() == 0 ? Shape::filled(axes, usual) : given;
}

bool is_of(const Shape& extents, int axes, std::int64_t least) {
  bool fits = extents.ndim() == axes;
  for (const std::int64_t extent : extents)
    fits = fits && extent >= least;
  return fits;
}

Shape weight_shape(std::int64_t outputs, std::int64_t inputs, const Shape& kernel) {
  Shape shape{outputs, inputs};
  for (const std::int64_t extent : kernel)
    shape.push_back(extent);
  return shape;
}

// One sample's state: (hidden, what a convolution of the input gives ..).
Shape state_shape(
    const char* name,
    const Shape& input,
    std::int64_t hidden,
    const Shape& kernel,
    const Shape& pad,
    const Shape& dilation) {
  Shape state{hidden};
  for (int axis = 0; axis < kernel.ndim(); ++axis) {
    const std::int64_t extent = input[axis + 1] + 2 * pad[axis] - dilation[axis] * (kernel[axis] - 1);
    require(extent >= 1, [&] {
      return message(name, ": a window of ", kernel, " does not fit into an input of shape ", input);
    });
    state.push_back(extent);
  }
  return state;
}

// Which keeps the extents of what is convolved.
Shape keeping_pad(const Shape& kernel, const Shape& dilation) {
  Shape pad;
  for (int axis = 0; axis < kernel.ndim(); ++axis)
    pad.push_back(dilation[axis] * (kernel[axis] - 1) / 2);
  return pad;
}

}  // namespace

ConvCell::ConvCell(const Sizes& s, const ConvCellOptions& o)
    : name_(s.name),
      kind_(s.kind),
      hidden_(s.hidden_channels),
      input_(s.input_shape),
      i2h_pad_(given_or(o.i2h_pad, s.axes, 0)),
      i2h_dilate_(given_or(o.i2h_dilate, s.axes, 1)),
      h2h_dilate_(given_or(o.h2h_dilate, s.axes, 1)),
      activation_(nn::detail::activation_function(o.activation)),
      i2h_weight_(parameter(
          "i2h_weight",
          {.shape = weight_shape(
               sluice::detail::gates_of(s.kind) * s.hidden_channels,
               s.input_shape.ndim() == 0 ? 0 : s.input_shape[0],
               s.i2h_kernel),
           .dtype = o.dtype,
           .init = o.i2h_weight_initializer})),
      h2h_weight_(parameter(
          "h2h_weight",
          {.shape = weight_shape(i2h_weight_.shape()[0], s.hidden_channels, s.h2h_kernel),
           .dtype = o.dtype,
           .init = o.h2h_weight_initializer})),
      i2h_bias_(
          parameter("i2h_bias", {.shape = {i2h_weight_.shape()[0]}, .dtype = o.dtype, .init = o.i2h_bias_initializer})),
      h2h_bias_(parameter(
          "h2h_bias", {.shape = {i2h_weight_.shape()[0]}, .dtype = o.dtype, .init = o.h2h_bias_initializer})) {
  const bool has_sizes = s.hidden_channels >= 1 && is_of(input_, s.axes + 1, 1) && is_of(s.i2h_kernel, s.axes, 1) &&
                         is_of(s.h2h_kernel, s.axes, 1);
  require(has_sizes, [&] {
    return message(
        name_,
        ": takes an input of ",
        s.axes + 1,
        " extents, not ",
        input_,
        ", and kernels of ",
        s.axes,
        ", not ",
        s.i2h_kernel,
        " and ",
        s.h2h_kernel,
        "; all, and hidden_channels ",
        s.hidden_channels,
        ", must be >= 1");
  });
  require(is_of(i2h_pad_, s.axes, 0) && is_of(i2h_dilate_, s.axes, 1) && is_of(h2h_dilate_, s.axes, 1), [&] {
    return message(name_, ": i2h_pad ", i2h_pad_, ", dilations ", i2h_dilate_, " and ", h2h_dilate_, " do not fit");
  });
  for (const std::int64_t extent : s.h2h_kernel)
    require(extent % 2 == 1, [&] { return message(name_, ": h2h_kernel ", s.h2h_kernel, " must be odd"); });
  require(activation_ != nullptr, [&] { return message(name_, ": a cell needs an activation"); });
  h2h_pad_ = keeping_pad(s.h2h_kernel, h2h_dilate_);
  state_ = state_shape(name_, input_, hidden_, s.i2h_kernel, i2h_pad_, i2h_dilate_);
  note_options(OptionNotes()
                   .add("input_shape", input_)
                   .add("hidden_channels", hidden_)
                   .add("i2h_kernel", s.i2h_kernel)
                   .add("h2h_kernel", s.h2h_kernel)
                   .add("i2h_pad", i2h_pad_, Shape::filled(s.axes, 0))
                   .add("i2h_dilate", i2h_dilate_, Shape::filled(s.axes, 1))
                   .add("h2h_dilate", h2h_dilate_, Shape::filled(s.axes, 1))
                   .add("activation", o.activation, "tanh")
                   .add("dtype", o.dtype, float32));
}

std::size_t ConvCell::num_states() const {
  return sluice::detail::states_of(kind_);
}

Arrays ConvCell::begin_state(std::int64_t batch_size, Device device) const {
  Shape shape = state_;
  shape.insert(0, batch_size);
  Arrays states;
  for (std::size_t i = 0; i < num_states(); ++i)
    states.push_back(zeros(shape, {.dtype = h2h_weight_.dtype(), .device = device}));
  return states;
}

NDArray ConvCell::convolved(
    const NDArray& x,
    const Parameter& weight,
    const Parameter& bias,
    const Shape& pad,
    const Shape& dilation,
    SourceLocation site) const {
  switch (pad.ndim()) {
    case 1:
      return convolution1d(
          x, weight.data(), bias.data(), {.stride = 1, .pad = {pad[0]}, .dilation = dilation[0]}, site);
    case 2:
      return convolution(x, weight.data(), bias.data(), {.stride = {1, 1}, .pad = pad, .dilation = dilation}, site);
    default:
      return convolution3d(
          x, weight.data(), bias.data(), {.stride = {1, 1, 1}, .pad = pad, .dilation = dilation}, site);
  }
}

Arrays ConvCell::step(
    const NDArray& from_x, const NDArray& from_h, std::span<const NDArray> states, SourceLocation site) const {
  const auto gate = [&](const NDArray& all, std::int64_t i) {
    return all.slice(1, i * hidden_, (i + 1) * hidden_, 1, site);
  };
  const auto sum = [&](std::int64_t i) { return add(gate(from_x, i), gate(from_h, i), site); };
  if (kind_ == RnnMode::lstm) {
    const NDArray kept = multiply(sigmoid(sum(1), site), states[1], site);
    const NDArray cell = add(kept, multiply(sigmoid(sum(0), site), activation_(sum(2), site), site), site);
    return {multiply(sigmoid(sum(3), site), activation_(cell, site), site), cell};
  }
  if (kind_ == RnnMode::gru) {
    const NDArray reset = sigmoid(sum(0), site), update = sigmoid(sum(1), site);
    const NDArray fresh = activation_(add(gate(from_x, 2), multiply(reset, gate(from_h, 2), site), site), site);
    return {add(fresh, multiply(update, subtract(states[0], fresh, site), site), site)};
  }
  return {activation_(add(from_x, from_h, site), site)};
}

Arrays ConvCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  const NDArray& x = inputs[0];
  const auto fits = [](const NDArray& array, const Shape& sample) {
    Shape one = unseen_shape(array);
    if (one.ndim() == 0)
      return false;
    one.erase(0);
    return one == sample;
  };
  require<ShapeError>(fits(x, input_), [&] {
    return message(name_, ": x must be samples of shape ", input_, ", not ", unseen_shape(x));
  });
  for (const NDArray& state : inputs.subspan(1)) {
    require<ShapeError>(fits(state, state_), [&] {
      return message(name_, ": a state must be samples of shape ", state_, ", not ", unseen_shape(state));
    });
  }
  require<DTypeError>(gluon::detail::goes_with(x, i2h_weight_.data()), [&] {
    return message(name_, ": x is ", x.dtype(), ", weights are ", i2h_weight_.data().dtype(), "; cast one");
  });
  const SourceLocation site = call_site();
  const NDArray from_x = convolved(x, i2h_weight_, i2h_bias_, i2h_pad_, i2h_dilate_, site);
  const NDArray from_h = convolved(inputs[1], h2h_weight_, h2h_bias_, h2h_pad_, h2h_dilate_, site);
  const Arrays after = step(from_x, from_h, inputs.subspan(1), site);
  Arrays results{after[0]};
  results.insert(results.end(), after.begin(), after.end());
  return results;
}

}  // namespace sluice::gluon::rnn
