#include <algorithm>
#include <span>

#include <sluice/engine/error.h>
#include <sluice/gluon/rnn/cells.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::gluon::rnn {

namespace {

void append(Arrays& to, std::span<const NDArray> more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The states of one cell of several, from `at` on; none where there are none at all.
Arrays part_of(const Arrays& states, std::size_t at, std::size_t count) {
  if (states.empty())
    return {};
  const auto first = states.begin() + static_cast<std::ptrdiff_t>(at);
  return Arrays(first, first + static_cast<std::ptrdiff_t>(count));
}

void check_count(const char* name, std::size_t given, std::size_t wanted) {
  require(given == wanted, [&] { return message(name, ": takes ", wanted, " states beside x, not ", given); });
}

void check_rate(const char* what, double rate) {
  require(rate >= 0 && rate <= 1, [&] { return message(what, ' ', rate, " is not within [0, 1]"); });
}

}  // namespace

std::size_t SequentialRNNCell::num_states() const {
  std::size_t all = 0;
  for (const Child<Cell>& cell : cells_)
    all += cell->num_states();
  return all;
}

Arrays SequentialRNNCell::begin_state(std::int64_t batch_size, Device device) const {
  Arrays all;
  for (const Child<Cell>& cell : cells_)
    append(all, cell->begin_state(batch_size, device));
  return all;
}

Arrays SequentialRNNCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  Arrays results{inputs[0]};
  std::size_t at = 1;
  for (const Child<Cell>& cell : cells_) {
    const std::size_t count = cell->num_states();
    Arrays given{results[0]};
    append(given, inputs.subspan(at, count));
    const Arrays after = cell.call(given, call_site());
    results[0] = after[0];
    append(results, std::span(after).subspan(1));
    at += count;
  }
  return results;
}

Unrolled SequentialRNNCell::run(const Steps& steps) const {
  check_count("rnn::SequentialRNNCell", steps.begin_state.size(), steps.begin_state.empty() ? 0 : num_states());
  Unrolled all{.outputs = steps.inputs, .states = {}};
  std::size_t at = 0;
  for (const Child<Cell>& cell : cells_) {
    const std::size_t count = cell->num_states();
    const Arrays begin = part_of(steps.begin_state, at, count);
    const Unrolled one = cell->unroll(steps.length, all.outputs, begin, steps.layout, steps.site);
    all.outputs = one.outputs;
    append(all.states, one.states);
    at += count;
  }
  return all;
}

DropoutCell::DropoutCell(double rate) : rate_(rate) {
  check_rate("rnn::DropoutCell: rate", rate);
}

Arrays DropoutCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1);
  return {dropout(inputs[0], rate_, call_site())};
}

Unrolled DropoutCell::run(const Steps& steps) const {
  check_count("rnn::DropoutCell", steps.begin_state.size(), 0);
  return {.outputs = dropout(steps.inputs, rate_, steps.site), .states = {}};
}

Arrays ResidualCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  Arrays results = cell_.call(inputs, call_site());
  results[0] = add(results[0], inputs[0], call_site());
  return results;
}

Unrolled ResidualCell::run(const Steps& steps) const {
  Unrolled all = cell_->unroll(steps.length, steps.inputs, steps.begin_state, steps.layout, steps.site);
  all.outputs = add(all.outputs, steps.inputs, steps.site);
  return all;
}

ZoneoutOptions ZoneoutCell::checked(ZoneoutOptions options) {
  check_rate("rnn::ZoneoutCell: outputs", options.outputs);
  check_rate("rnn::ZoneoutCell: states", options.states);
  return options;
}

Arrays ZoneoutCell::begin_state(std::int64_t batch_size, Device device) const {
  Arrays states = cell_->begin_state(batch_size, device);
  if (options_.outputs > 0)
    states.push_back(zeros(states[0].shape(), {.dtype = states[0].dtype(), .device = device}));
  return states;
}

Arrays ZoneoutCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  const std::size_t states = cell_->num_states();
  Arrays results = cell_.call(inputs.first(1 + states), call_site());
  // Dropout says which elements are new; of a share of 1 none is.
  const auto mixed = [&](double share, const NDArray& now, const NDArray& before) {
    if (share == 0 || !autograd::is_training())
      return now;
    return where(dropout(ones_like(now), share, call_site()) > 0, now, before);
  };
  for (std::size_t i = 1; i <= states; ++i)
    results[i] = mixed(options_.states, results[i], inputs[i]);
  if (options_.outputs > 0) {
    const NDArray output = mixed(options_.outputs, results[0], inputs[1 + states]);
    results[0] = output;
    results.push_back(output);
  }
  return results;
}

Arrays BidirectionalCell::begin_state(std::int64_t batch_size, Device device) const {
  Arrays states = l_cell_->begin_state(batch_size, device);
  append(states, r_cell_->begin_state(batch_size, device));
  return states;
}

Arrays BidirectionalCell::forward_all(std::span<const NDArray> /*inputs*/) const {
  throw UnsupportedError("rnn::BidirectionalCell: a sequence from both ends has no step; unroll() runs all of them");
}

Unrolled BidirectionalCell::run(const Steps& steps) const {
  check_count("rnn::BidirectionalCell", steps.begin_state.size(), steps.begin_state.empty() ? 0 : num_states());
  const auto [length, inputs, begin, layout, site] = steps;
  const std::size_t left = l_cell_->num_states(), right = r_cell_->num_states();
  const Unrolled forth = l_cell_->unroll(length, inputs, part_of(begin, 0, left), layout, site);
  const NDArray turned = flip(inputs, steps.axis(), site);
  const Unrolled back = r_cell_->unroll(length, turned, part_of(begin, left, right), layout, site);
  Arrays states = forth.states;
  append(states, back.states);
  return {concat({forth.outputs, flip(back.outputs, steps.axis(), site)}, -1, site), states};
}

}  // namespace sluice::gluon::rnn
