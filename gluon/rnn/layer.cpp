#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/rnn/layer.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/random/dropout.h>
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
      projection_(o.projection_size == 0 ? hidden_size : o.projection_size),
      clip_{.min = o.state_clip_min, .max = o.state_clip_max, .nan = o.state_clip_nan},
      layers_(static_cast<std::size_t>(o.num_layers)),
      directions_(o.bidirectional ? 2 : 1),
      layout_(o.layout),
      dropout_(o.dropout),
      uses_lengths_(o.use_sequence_length) {
  check_options(name, hidden_size, o);
  const bool is_plain = o.projection_size == 0 && !o.state_clip_min && !o.state_clip_max && !o.state_clip_nan;
  require(kind == RnnMode::lstm || is_plain, [&] {
    return message(name, ": projection_size and state_clip_min/max/nan are options of an LSTM");
  });
  require(o.projection_size >= 0 && o.projection_size <= hidden_size, [&] {
    return message(name, ": projection_size ", o.projection_size, " is not 0 to hidden_size ", hidden_size);
  });
  gluon::detail::check_state_clip(name, clip_);
  add_parameters(o);
  note_options(gluon::detail::recurrent_notes(*weights_[0].i2h_weight, hidden_size, o)
                   .add("projection_size", o.projection_size, std::int64_t{0})
                   .add("state_clip_min", o.state_clip_min, {})
                   .add("state_clip_max", o.state_clip_max, {})
                   .add("state_clip_nan", o.state_clip_nan, false));
}

void RecurrentLayer::add_parameters(const RecurrentOptions& o) {
  const std::int64_t rows = sluice::detail::gates_of(kind_) * hidden_;
  for (std::size_t i = 0; i < layers_ * directions_; ++i) {
    const std::size_t layer = i / directions_;
    const std::string prefix = message(i % directions_ == 0 ? "l" : "r", layer, "_");
    const std::int64_t in = layer == 0 ? o.input_size : projection_ * static_cast<std::int64_t>(directions_);
    const auto made = [&](const char* what, const Shape& shape, const init::Initializer& init) {
      return &parameter(prefix + what, {.shape = shape, .dtype = o.dtype, .init = init});
    };
    weights_.push_back(
        {made("i2h_weight", {rows, in}, o.i2h_weight_initializer),
         made("h2h_weight", {rows, projection_}, o.h2h_weight_initializer),
         made("i2h_bias", {rows}, o.i2h_bias_initializer),
         made("h2h_bias", {rows}, o.h2h_bias_initializer),
         o.projection_size == 0 ? nullptr : made("h2r_weight", {projection_, hidden_}, o.h2r_weight_initializer)});
  }
}

Arrays RecurrentLayer::begin_state(std::int64_t batch_size, Device device) const {
  Arrays states;
  for (std::size_t i = 0; i < sluice::detail::states_of(kind_); ++i) {
    const Shape shape{static_cast<std::int64_t>(layers_ * directions_), batch_size, units_of(i)};
    states.push_back(zeros(shape, {.dtype = weights_[0].h2h_weight->dtype(), .device = device}));
  }
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
  const std::int64_t samples = x[is_first ? 1 : 0];
  if (uses_lengths_)
    check_lengths(inputs.back(), samples);
  const std::span<const NDArray> given = without_lengths(inputs).subspan(1);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Shape state{static_cast<std::int64_t>(layers_ * directions_), samples, units_of(i)};
    require<ShapeError>(unseen_shape(given[i]) == state, [&] {
      return message(name_, ": a state must be ", state, " beside x of shape ", x, ", not ", unseen_shape(given[i]));
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

// Layer by layer and direction by direction, as rnn() does it, one step after the other.
Arrays RecurrentLayer::forward_composed(const NDArray& x, const Arrays& states, const NDArray& lengths) const {
  const SourceLocation site = call_site();
  NDArray padding;  // (T, N, 1)
  if (lengths.defined()) {
    const NDArray steps = arange(0, static_cast<double>(x.shape()[0]), 1, {.dtype = int64, .device = x.device()});
    padding = greater_equal(steps.reshape({-1, 1, 1}), lengths.astype(int64, site).reshape({1, -1, 1}), site);
  }
  std::vector<std::vector<NDArray>> ends(2);
  NDArray y = x;
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    if (layer > 0 && dropout_ > 0)
      y = dropout(y, dropout_, site);
    std::vector<NDArray> outputs;
    for (std::size_t direction = 0; direction < directions_; ++direction) {
      const std::size_t i = layer * directions_ + direction;
      const Direction& w = weights_[i];
      const NDArray projection = w.h2r_weight == nullptr ? NDArray() : w.h2r_weight->data();
      Arrays before;
      for (const NDArray& state : states)
        before.push_back(state[static_cast<std::int64_t>(i)]);
      const sluice::detail::RecurrentResult all = gluon::detail::projected_steps(
          y,
          before,
          {{w.i2h_weight->data(), w.h2h_weight->data(), w.i2h_bias->data(), w.h2h_bias->data()}, projection, clip_},
          direction == 1,
          site,
          padding);
      outputs.push_back(lengths.defined() ? where(padding, 0, all.outputs, site) : all.outputs);
      for (std::size_t state = 0; state < ends.size(); ++state)
        ends[state].push_back(all.states[state]);
    }
    y = outputs.size() == 1 ? outputs[0] : concat(outputs, 2, site);
  }
  return {y, stack(ends[0], 0, site), stack(ends[1], 0, site)};
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
  Arrays results = is_composed()   ? forward_composed(x, states, uses_lengths_ ? given.back() : NDArray())
                   : uses_lengths_ ? sluice::rnn(x, joined_parameters(), states, given.back(), how, site)
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
