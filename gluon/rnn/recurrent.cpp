#include <sluice/gluon/detail/recurrent.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/control/control.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::gluon::detail {

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
NDArray input_product(RecurrentKind kind, const NDArray& x, const RecurrentWeights& w, SourceLocation site) {
  return times(x, w.i2h_weight, kind == RecurrentKind::gru ? w.i2h_bias : add(w.i2h_bias, w.h2h_bias, site), site);
}

Arrays recurrent_step(
    RecurrentKind kind, const NDArray& product, const Arrays& states, const RecurrentWeights& w, SourceLocation site) {
  const NDArray& h = states[0];
  const std::int64_t hidden = w.h2h_weight.shape()[1];
  if (kind == RecurrentKind::gru)
    return gru_step(product, times(h, w.h2h_weight, w.h2h_bias, site), h, hidden, site);
  const NDArray sums = add(product, times(h, w.h2h_weight, {}, site), site);
  if (kind == RecurrentKind::lstm)
    return lstm_step(sums, states[1], hidden, site);
  return {kind == RecurrentKind::relu ? relu(sums, site) : tanh(sums, site)};
}

RecurrentResult recurrent_steps(
    RecurrentKind kind,
    const NDArray& x,
    const Arrays& states,
    const RecurrentWeights& w,
    bool backwards,
    SourceLocation site) {
  NDArray products = input_product(kind, x, w, site);
  if (backwards)
    products = flip(products, 0, site);
  const Arrays begin =
      states.empty() ? Arrays(states_of(kind), zero_state(products, w.h2h_weight.shape()[1], site)) : Arrays(states);
  const ForeachBody step = [&](const Arrays& data, const Arrays& before) -> LoopResult {
    Arrays after = recurrent_step(kind, data[0], before, w, site);
    for (std::size_t i = 0; i < after.size() && amp::autocast_dtype(); ++i)
      after[i] = after[i].astype(before[i].dtype(), site);
    return {{after[0]}, after};
  };
  const LoopResult all = foreach(step, {products}, begin, site);
  return {backwards ? flip(all.outputs[0], 0, site) : all.outputs[0], all.states};
}

}  // namespace sluice::gluon::detail
