#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/rnn/cell.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>

namespace sluice::gluon::rnn {

using sluice::detail::unseen_shape;

namespace {

// Checked before the parameters are declared.
std::int64_t rows_of(const char* name, RnnMode kind, std::int64_t hidden, const CellOptions& o) {
  require(sluice::detail::is_hidden_size(hidden) && o.input_size >= 0, [&] {
    return message(name, ": hidden_size ", hidden, " must be 1 to 2^31 - 1, input_size ", o.input_size, " >= 0");
  });
  return sluice::detail::gates_of(kind) * hidden;
}

// Of unroll().
void check_steps(
    const char* name, std::int64_t length, const NDArray& inputs, Layout layout, int most_axes = k_max_ndim) {
  require(inputs.defined(), [&] { return message(name, ": inputs of unroll are an undefined NDArray"); });
  const Shape& shape = unseen_shape(inputs);
  const bool is_first = layout == Layout::TNC;
  require<ShapeError>(
      length >= 1 && shape.ndim() >= 3 && shape.ndim() <= most_axes && shape[is_first ? 0 : 1] == length, [&] {
        const char* const axes = is_first ? "(T, N, C)" : "(N, T, C)";
        return message(name, ": unroll of ", length, " steps takes ", axes, " of as many, at least one, not ", shape);
      });
}

}  // namespace

Unrolled Cell::unroll(
    std::int64_t length, const NDArray& inputs, const Arrays& begin_state, Layout layout, SourceLocation site) const {
  return sluice::detail::located(site, [&] { return run({length, inputs, begin_state, layout, site}); });
}

Unrolled Cell::run(const Steps& steps) const {
  check_steps("rnn::Cell", steps.length, steps.inputs, steps.layout);
  const int axis = steps.axis();
  Arrays states = steps.begin_state;
  if (states.empty())
    states = begin_state(steps.inputs.shape()[1 - axis], steps.inputs.device());
  Arrays outputs;
  for (std::int64_t t = 0; t < steps.length; ++t) {
    Arrays given{steps.inputs.slice(axis, t, t + 1).squeeze(axis)};
    given.insert(given.end(), states.begin(), states.end());
    const Arrays after = call(given, steps.site);
    outputs.push_back(after[0].expand_dims(axis));
    states.assign(after.begin() + 1, after.end());
  }
  return {concat(outputs, axis, steps.site), states};
}

RecurrentCell::RecurrentCell(const char* name, RnnMode kind, std::int64_t hidden_size, const CellOptions& o)
    : name_(name),
      kind_(kind),
      hidden_(hidden_size),
      i2h_weight_(parameter(
          "i2h_weight",
          {.shape = {rows_of(name, kind, hidden_size, o), o.input_size},
           .dtype = o.dtype,
           .init = o.i2h_weight_initializer})),
      h2h_weight_(parameter(
          "h2h_weight",
          {.shape = {i2h_weight_.shape()[0], hidden_size}, .dtype = o.dtype, .init = o.h2h_weight_initializer})),
      i2h_bias_(
          parameter("i2h_bias", {.shape = {i2h_weight_.shape()[0]}, .dtype = o.dtype, .init = o.i2h_bias_initializer})),
      h2h_bias_(parameter(
          "h2h_bias", {.shape = {i2h_weight_.shape()[0]}, .dtype = o.dtype, .init = o.h2h_bias_initializer})) {
  note_options(gluon::detail::recurrent_notes(i2h_weight_, hidden_size, o));
}

std::size_t RecurrentCell::num_states() const {
  return sluice::detail::states_of(kind_);
}

Arrays RecurrentCell::begin_state(std::int64_t batch_size, Device device) const {
  Arrays states;
  for (std::size_t i = 0; i < num_states(); ++i)
    states.push_back(zeros({batch_size, hidden_}, {.dtype = h2h_weight_.dtype(), .device = device}));
  return states;
}

sluice::detail::RecurrentWeights RecurrentCell::weights_for(const NDArray& x) const {
  if (!i2h_weight_.is_initialized()) [[unlikely]] {
    require<ShapeError>(x.shape().back() >= 1, [&] { return message(name_, ": x of shape ", x.shape(), " is empty"); });
    i2h_weight_.complete({i2h_weight_.shape()[0], x.shape().back()});
  }
  require<DTypeError>(gluon::detail::goes_with(x, i2h_weight_.data()), [&] {
    return message(name_, ": x is ", x.dtype(), ", weights are ", i2h_weight_.dtype(), "; cast one");
  });
  return {i2h_weight_.data(), h2h_weight_.data(), i2h_bias_.data(), h2h_bias_.data()};
}

void RecurrentCell::check_states(const Shape& x, std::int64_t samples, std::span<const NDArray> states) const {
  const std::size_t wanted = sluice::detail::states_of(kind_);
  require(states.size() == wanted, [&] {
    return message(name_, ": takes ", wanted, " states beside x, not ", states.size());
  });
  const Shape shape{samples, hidden_};
  for (const NDArray& state : states) {
    require<ShapeError>(state.defined() && unseen_shape(state) == shape, [&] {
      return message(name_, ": a state must be ", shape, " beside x of shape ", x);
    });
  }
}

Arrays RecurrentCell::forward_all(std::span<const NDArray> inputs) const {
  require(!inputs.empty(), [&] { return message(name_, ": takes x and states, not 0 arrays"); });
  const SourceLocation site = call_site();
  const NDArray& x = inputs[0];
  require<ShapeError>(
      unseen_shape(x).ndim() == 2, [&] { return message(name_, ": x must be (N, C), not ", unseen_shape(x)); });
  check_states(unseen_shape(x), unseen_shape(x)[0], inputs.subspan(1));
  const sluice::detail::RecurrentWeights weights = weights_for(x);
  const NDArray product = sluice::detail::input_product(kind_, x, weights, site);
  const auto states = inputs.subspan(1);
  const Arrays before(states.begin(), states.end());
  const Arrays after = sluice::detail::recurrent_step(kind_, product, before, weights, site);
  Arrays results{after[0]};
  for (const NDArray& state : after)
    results.push_back(state);
  return results;
}

Unrolled RecurrentCell::run(const Steps& steps) const {
  check_steps(name_, steps.length, steps.inputs, steps.layout, 3);
  const Shape& shape = unseen_shape(steps.inputs);
  if (!steps.begin_state.empty())
    check_states(shape, shape[1 - steps.axis()], steps.begin_state);
  const sluice::detail::RecurrentWeights weights = weights_for(steps.inputs);
  const bool is_first = steps.layout == Layout::TNC;
  const NDArray x = is_first ? steps.inputs : steps.inputs.swapaxes(0, 1, steps.site);
  const sluice::detail::RecurrentResult all =
      sluice::detail::recurrent_steps(kind_, x, steps.begin_state, weights, false, steps.site);
  return {is_first ? all.outputs : all.outputs.swapaxes(0, 1, steps.site), all.states};
}

RNNCell::RNNCell(std::int64_t hidden_size, CellOptions options, Activation activation)
    : RecurrentCell(
          "rnn::RNNCell",
          activation == Activation::relu ? RnnMode::rnn_relu : RnnMode::rnn_tanh,
          hidden_size,
          options) {}

LSTMCell::LSTMCell(std::int64_t hidden_size, CellOptions options)
    : RecurrentCell("rnn::LSTMCell", RnnMode::lstm, hidden_size, options) {}

GRUCell::GRUCell(std::int64_t hidden_size, CellOptions options)
    : RecurrentCell("rnn::GRUCell", RnnMode::gru, hidden_size, options) {}

}  // namespace sluice::gluon::rnn
