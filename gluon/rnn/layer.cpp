#include <sluice/engine/error.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/rnn/layer.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/rnn/rnn.h>

namespace sluice::gluon::rnn {

using sluice::detail::unseen_shape;

namespace {

void check_options(const char* name, std::int64_t hidden, const RecurrentOptions& o) {
  require(sluice::detail::is_hidden_size(hidden) && o.num_layers >= 1 && o.input_size >= 0, [&] {
    return message(
        name,
        ": hidden_size ",
        hidden,
        " must be 1 to 2^31 - 1, num_layers ",
        o.num_layers,
        " >= 1, input_size ",
        o.input_size,
        " >= 0");
  });
  require(o.dropout >= 0 && o.dropout <= 1, [&] {
    return message(name, ": dropout is ", o.dropout, ", not between 0 and 1");
  });
}

}  // namespace

RecurrentLayer::RecurrentLayer(const char* name, RnnMode kind, std::int64_t hidden_size, const RecurrentOptions& o)
    : name_(name),
      kind_(kind),
      hidden_(hidden_size),
      layers_(static_cast<std::size_t>(o.num_layers)),
      directions_(o.bidirectional ? 2 : 1),
      layout_(o.layout),
      dropout_(o.dropout),
      uses_lengths_(o.use_sequence_length) {
  check_options(name, hidden_size, o);
  const std::int64_t rows = sluice::detail::gates_of(kind) * hidden_size;
  for (std::size_t i = 0; i < layers_ * directions_; ++i) {
    const std::size_t layer = i / directions_;
    const std::string prefix = message(i % directions_ == 0 ? "l" : "r", layer, "_");
    const std::int64_t in = layer == 0 ? o.input_size : hidden_size * static_cast<std::int64_t>(directions_);
    const auto made = [&](const char* what, const Shape& shape, const init::Initializer& init) {
      return &parameter(prefix + what, {.shape = shape, .dtype = o.dtype, .init = init});
    };
    weights_.push_back(
        {made("i2h_weight", {rows, in}, o.i2h_weight_initializer),
         made("h2h_weight", {rows, hidden_size}, o.h2h_weight_initializer),
         made("i2h_bias", {rows}, o.i2h_bias_initializer),
         made("h2h_bias", {rows}, o.h2h_bias_initializer)});
  }
}

Arrays RecurrentLayer::begin_state(std::int64_t batch_size, Device device) const {
  const Shape shape{static_cast<std::int64_t>(layers_ * directions_), batch_size, hidden_};
  Arrays states;
  for (std::size_t i = 0; i < sluice::detail::states_of(kind_); ++i)
    states.push_back(zeros(shape, {.dtype = weights_[0].h2h_weight->dtype(), .device = device}));
  return states;
}

std::span<const NDArray> RecurrentLayer::without_lengths(std::span<const NDArray> inputs) const {
  return inputs.first(inputs.size() - (uses_lengths_ ? 1 : 0));
}

void RecurrentLayer::check_lengths(const NDArray& lengths, std::int64_t samples) const {
  require<DTypeError>(is_integer(lengths.dtype()), [&] {
    return message(name_, ": lengths are of an integer type, not ", lengths.dtype());
  });
  require<ShapeError>(unseen_shape(lengths) == Shape{samples}, [&] {
    return message(name_, ": lengths are ", unseen_shape(lengths), ", not ", Shape{samples}, ", one a sample");
  });
}

void RecurrentLayer::check_inputs(std::span<const NDArray> inputs) const {
  const std::size_t states = sluice::detail::states_of(kind_), lengths = uses_lengths_ ? 1 : 0;
  require(inputs.size() == 1 + lengths || inputs.size() == 1 + states + lengths, [&] {
    const char* const last = uses_lengths_ ? ", and lengths" : "";
    return message(name_, ": takes x, or x and ", states, " states", last, ", not ", inputs.size(), " arrays");
  });
  const Shape& x = unseen_shape(inputs[0]);
  const bool is_first = layout_ == Layout::TNC;
  require<ShapeError>(x.ndim() == 3 && x[is_first ? 0 : 1] >= 1 && x[2] >= 1, [&] {
    return message(name_, ": x must be ", is_first ? "(T, N, C)" : "(N, T, C)", " of a step or more, not ", x);
  });
  const Shape state{static_cast<std::int64_t>(layers_ * directions_), x[is_first ? 1 : 0], hidden_};
  if (uses_lengths_)
    check_lengths(inputs.back(), state[1]);
  for (const NDArray& given : without_lengths(inputs).subspan(1)) {
    require<ShapeError>(unseen_shape(given) == state, [&] {
      return message(name_, ": a state must be ", state, " beside x of shape ", x, ", not ", unseen_shape(given));
    });
  }
}

// All as one array, as rnn() takes them.
NDArray RecurrentLayer::joined_parameters() const {
  const SourceLocation site = call_site();
  std::vector<NDArray> parts;
  for (const Direction& w : weights_) {
    for (const Parameter* const weight : {w.i2h_weight, w.h2h_weight})
      parts.push_back(weight->data().reshape({-1}, site));
  }
  for (const Direction& w : weights_) {
    for (const Parameter* const bias : {w.i2h_bias, w.h2h_bias})
      parts.push_back(bias->data());
  }
  return concat(parts, 0, site);
}

void RecurrentLayer::prepare(std::span<const NDArray> inputs) const {
  for (std::size_t direction = 0; direction < directions_; ++direction) {
    if (const Parameter& weight = *weights_[direction].i2h_weight; !weight.is_initialized()) [[unlikely]]
      weight.complete({weight.shape()[0], inputs[0].shape()[2]});
  }
  const NDArray& weight = weights_[0].h2h_weight->data();
  for (const NDArray& input : inputs) {
    require<DTypeError>(gluon::detail::goes_with(input, weight), [&] {
      return message(name_, ": an input is ", input.dtype(), ", weights are ", weight.dtype(), "; cast one");
    });
  }
}

Arrays RecurrentLayer::forward_all(std::span<const NDArray> given) const {
  check_inputs(given);
  const SourceLocation site = call_site();
  const std::span<const NDArray> inputs = without_lengths(given);
  prepare(inputs);
  const bool is_first = layout_ == Layout::TNC;
  const RnnOptions how{
      .mode = kind_,
      .hidden_size = hidden_,
      .num_layers = static_cast<std::int64_t>(layers_),
      .bidirectional = directions_ == 2,
      .dropout = dropout_};
  const NDArray x = is_first ? inputs[0] : inputs[0].swapaxes(0, 1, site);
  const Arrays states(inputs.begin() + 1, inputs.end());
  Arrays results = uses_lengths_ ? sluice::rnn(x, joined_parameters(), states, given.back(), how, site)
                                 : sluice::rnn(x, joined_parameters(), states, how, site);
  if (!is_first)
    results[0] = results[0].swapaxes(0, 1, site);
  results.resize(inputs.size());  // states for who gave some
  return results;
}

RNN::RNN(std::int64_t hidden_size, RecurrentOptions options, Activation activation)
    : RecurrentLayer(
          "rnn::RNN", activation == Activation::relu ? RnnMode::rnn_relu : RnnMode::rnn_tanh, hidden_size, options) {}

LSTM::LSTM(std::int64_t hidden_size, RecurrentOptions options)
    : RecurrentLayer("rnn::LSTM", RnnMode::lstm, hidden_size, options) {}

GRU::GRU(std::int64_t hidden_size, RecurrentOptions options)
    : RecurrentLayer("rnn::GRU", RnnMode::gru, hidden_size, options) {}

}  // namespace sluice::gluon::rnn
