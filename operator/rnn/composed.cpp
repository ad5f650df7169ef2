#include <algorithm>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/control/control.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/rnn/composed.h>
#include <sluice/operator/rnn/problem.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::detail {

namespace {

NDArray times(const NDArray& x, const NDArray& weight, const NDArray& bias, SourceLocation site) {
  return dense(x, weight, bias, {.flatten = false}, site);
}

// Gate i of (N, gates * hidden).
NDArray gate(const NDArray& all, std::int64_t i, std::int64_t hidden, SourceLocation site) {
  return all.slice(1, i * hidden, (i + 1) * hidden, 1, site);
}

Arrays lstm_step(const NDArray& gates, const NDArray& cell, std::int64_t hidden, SourceLocation site) {
  const NDArray in = sigmoid(gate(gates, 0, hidden, site), site), keep = sigmoid(gate(gates, 1, hidden, site), site);
  const NDArray fresh = tanh(gate(gates, 2, hidden, site), site), out = sigmoid(gate(gates, 3, hidden, site), site);
  const NDArray next = add(multiply(keep, cell, site), multiply(in, fresh, site), site);
  return {multiply(out, tanh(next, site), site), next};
}

Arrays gru_step(
    const NDArray& x, const NDArray& hidden_product, const NDArray& h, std::int64_t hidden, SourceLocation site) {
  const auto sum = [&](std::int64_t i) {
    return add(gate(x, i, hidden, site), gate(hidden_product, i, hidden, site), site);
  };
  const NDArray reset = sigmoid(sum(0), site), update = sigmoid(sum(1), site);
  const NDArray recalled = multiply(reset, gate(hidden_product, 2, hidden, site), site);
  const NDArray fresh = tanh(add(gate(x, 2, hidden, site), recalled, site), site);
  return {add(fresh, multiply(update, subtract(h, fresh, site), site), site)};
}

// As many rows as the product of a step has, without asking for their number: nothing is less than itself, a NaN
// neither.
NDArray zero_state(const NDArray& product, std::int64_t hidden, SourceLocation site) {
  const NDArray some = product.detach().slice(0, 0, 1, 1, site).squeeze(0, site).slice(1, 0, 1, 1, site);
  return less(some, some, site).astype(product.dtype(), site).broadcast_to({-1, hidden}, site);
}

}  // namespace

// The biases of a GRU's own state stand inside its reset gate.
NDArray input_product(RnnMode mode, const NDArray& x, const RecurrentWeights& w, SourceLocation site) {
  return times(x, w.i2h_weight, mode == RnnMode::gru ? w.i2h_bias : add(w.i2h_bias, w.h2h_bias, site), site);
}

Arrays recurrent_step(
    RnnMode mode, const NDArray& product, const Arrays& states, const RecurrentWeights& w, SourceLocation site) {
  const NDArray& h = states[0];
  const std::int64_t hidden = w.h2h_weight.shape()[1];
  if (mode == RnnMode::gru)
    return gru_step(product, times(h, w.h2h_weight, w.h2h_bias, site), h, hidden, site);
  const NDArray sums = add(product, times(h, w.h2h_weight, {}, site), site);
  if (mode == RnnMode::lstm)
    return lstm_step(sums, states[1], hidden, site);
  return {mode == RnnMode::rnn_relu ? relu(sums, site) : tanh(sums, site)};
}

RecurrentResult recurrent_steps(
    RnnMode mode,
    const NDArray& x,
    const Arrays& states,
    const RecurrentWeights& w,
    bool backwards,
    SourceLocation site,
    const NDArray& padding) {
  const auto in_order = [&](const NDArray& steps) { return backwards ? flip(steps, 0, site) : steps; };
  const NDArray products = in_order(input_product(mode, x, w, site));
  const Arrays begin =
      states.empty() ? Arrays(states_of(mode), zero_state(products, w.h2h_weight.shape()[1], site)) : Arrays(states);
  const ForeachBody step = [&](const Arrays& data, const Arrays& before) -> LoopResult {
    Arrays after = recurrent_step(mode, data[0], before, w, site);
    for (std::size_t i = 0; i < after.size() && amp::autocast_dtype(); ++i)
      after[i] = after[i].astype(before[i].dtype(), site);
    for (std::size_t i = 0; i < after.size() && data.size() == 2; ++i)
      after[i] = where(data[1], before[i], after[i], site);
    return {{after[0]}, after};
  };
  const Arrays data = padding.defined() ? Arrays{products, in_order(padding)} : Arrays{products};
  const LoopResult all = foreach(step, data, begin, site);
  return {in_order(all.outputs[0]), all.states};
}

RecurrentWeights recurrent_weights(
    const NDArray& all, const RnnProblem& p, std::int64_t layer, std::int64_t direction, SourceLocation site) {
  const auto cut = [&](std::int64_t begin, const Shape& shape) {
    return all.slice(0, begin, begin + shape.size(), 1, site).reshape(shape, site);
  };
  return {
      cut(p.input_weights(layer, direction), {p.rows(), p.input_of(layer)}),
      cut(p.state_weights(layer, direction), {p.rows(), p.hidden}),
      cut(p.input_bias(layer, direction), {p.rows()}),
      cut(p.state_bias(layer, direction), {p.rows()})};
}

Arrays over_layers(
    const RnnProblem& p,
    NDArray y,
    const NDArray& parameters,
    std::span<const NDArray> states,
    const DirectionOfSteps& run,
    SourceLocation site) {
  std::vector<std::vector<NDArray>> ends(states_of(p.mode));
  for (std::int64_t layer = 0; layer < p.layers; ++layer) {
    std::vector<NDArray> outputs;
    for (std::int64_t direction = 0; direction < p.directions; ++direction) {
      const std::int64_t i = layer * p.directions + direction;
      Arrays before;
      for (const NDArray& state : states)
        before.push_back(state.slice(0, i, i + 1, 1, site).squeeze(0, site));
      const RecurrentResult all =
          run(y, before, recurrent_weights(parameters, p, layer, direction, site), direction == 1);
      outputs.push_back(all.outputs);
      for (std::size_t state = 0; state < ends.size(); ++state)
        ends[state].push_back(all.states[state]);
    }
    y = outputs.size() == 1 ? outputs[0] : concat(outputs, 2, site);
  }
  Arrays results{y};
  for (const std::vector<NDArray>& state : ends)
    results.push_back(stack(state, 0, site));
  return results;
}

Arrays rnn_composed(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const RnnProblem p = rnn_problem(rnn_op, spec_of(inputs[0]), spec_of(inputs[1]), how);
  const auto run = [&](const NDArray& x, const Arrays& before, const RecurrentWeights& weights, bool backwards) {
    return recurrent_steps(p.mode, x, before, weights, backwards, site);
  };
  return over_layers(p, inputs[0], inputs[1], inputs.subspan(2), run, site);
}

// Under a recording these are the inputs that the tape knows; otherwise a tape of their own.
Arrays rnn_recorded_gradients(const GradientCall& call) {
  const SourceLocation site = SourceLocation::current();
  const bool is_recorded = autograd::is_recording();
  std::vector<NDArray> inputs(call.inputs.begin(), call.inputs.end());
  if (!is_recorded) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = inputs[i].detach();
      if (call.wanted[i])
        inputs[i].attach_grad(GradReq::write, {});
    }
  }
  Arrays results;
  {
    const autograd::RecordScope record;
    const auto& how = call.attributes.as<RnnAttributes>();
    results = takes_lengths(call.op) ? rnn_lengths_composed(inputs, how, site) : rnn_composed(inputs, how, site);
  }
  std::vector<NDArray> of, heads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (call.output_grads[i].defined()) {
      of.push_back(results[i]);
      heads.push_back(call.output_grads[i]);
    }
  }
  std::vector<autograd::Entry> places;
  std::vector<std::size_t> of_input;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.wanted[i] && autograd::on_tape(inputs[i])) {
      places.push_back(autograd::entry_of(inputs[i]));
      of_input.push_back(i);
    }
  }
  const std::vector<NDArray> made =
      autograd::grad_at(call.op.name, of, heads, places, {.create_graph = is_recorded}, site);
  Arrays grads(inputs.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    grads[of_input[i]] = made[i];
  return grads;
}

}  // namespace sluice::detail
