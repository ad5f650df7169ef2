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
  note_options(OptionNotes().add("rate", rate));
}

Arrays DropoutCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1);
  return {dropout(inputs[0], rate_, call_site())};
}

Unrolled DropoutCell::run(const Steps& steps) const {
  check_count("rnn::DropoutCell", steps.begin_state.size(), 0);
  return {.outputs = dropout(steps.inputs, rate_, steps.site), .states = {}};
}

Arrays ModifierCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  return cell_.call(inputs, call_site());
}

Arrays ResidualCell::forward_all(std::span<const NDArray> inputs) const {
  Arrays results = ModifierCell::forward_all(inputs);
  results[0] = add(results[0], inputs[0], call_site());
  return results;
}

Unrolled ResidualCell::run(const Steps& steps) const {
  Unrolled all = cell()->unroll(steps.length, steps.inputs, steps.begin_state, steps.layout, steps.site);
  all.outputs = add(all.outputs, steps.inputs, steps.site);
  return all;
}

VariationalDropoutOptions VariationalDropoutCell::checked(VariationalDropoutOptions options) {
  check_rate("rnn::VariationalDropoutCell: inputs", options.inputs);
  check_rate("rnn::VariationalDropoutCell: states", options.states);
  check_rate("rnn::VariationalDropoutCell: outputs", options.outputs);
  note_options(OptionNotes()
                   .add("inputs", options.inputs, 0.0)
                   .add("states", options.states, 0.0)
                   .add("outputs", options.outputs, 0.0));
  return options;
}

Arrays VariationalDropoutCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  Arrays given(inputs.begin(), inputs.end());
  given[0] = dropout(given[0], options_.inputs, call_site());
  if (given.size() > 1)
    given[1] = dropout(given[1], options_.states, call_site());
  Arrays results = cell().call(given, call_site());
  results[0] = dropout(results[0], options_.outputs, call_site());
  return results;
}

Unrolled VariationalDropoutCell::run(const Steps& steps) const {
  const SourceLocation site = steps.site;
  // Of one step, for all of them.
  const auto dropped = [&](const NDArray& all, double rate) {
    if (rate == 0 || !autograd::is_training())
      return all;
    return multiply(all, dropout(ones_like(all.slice(steps.axis(), 0, 1, 1, site)), rate, site), site);
  };
  const NDArray x = dropped(steps.inputs, options_.inputs);
  Unrolled all;
  if (options_.states == 0 || !autograd::is_training() || num_states() == 0) {
    all = cell()->unroll(steps.length, x, steps.begin_state, steps.layout, site);
  } else {
    all = with_dropped_states(steps, x);
  }
  all.outputs = dropped(all.outputs, options_.outputs);
  return all;
}

Unrolled VariationalDropoutCell::with_dropped_states(const Steps& steps, const NDArray& x) const {
  check_count("rnn::VariationalDropoutCell", steps.begin_state.size(), steps.begin_state.empty() ? 0 : num_states());
  Arrays states = steps.begin_state;
  if (states.empty())
    states = begin_state(x.shape()[1 - steps.axis()], x.device());
  const NDArray kept = dropout(ones_like(states[0]), options_.states, steps.site);
  std::vector<NDArray> outputs;
  for (std::int64_t i = 0; i < steps.length; ++i) {
    Arrays given{x.slice(steps.axis(), i, i + 1, 1, steps.site).squeeze(steps.axis(), steps.site)};
    append(given, states);
    given[1] = multiply(given[1], kept, steps.site);
    const Arrays results = cell().call(given, steps.site);
    outputs.push_back(results[0]);
    states.assign(results.begin() + 1, results.end());
  }
  return {.outputs = stack(outputs, steps.axis(), steps.site), .states = states};
}

ZoneoutOptions ZoneoutCell::checked(ZoneoutOptions options) {
  check_rate("rnn::ZoneoutCell: outputs", options.outputs);
  check_rate("rnn::ZoneoutCell: states", options.states);
  note_options(OptionNotes().add("outputs", options.outputs, 0.0).add("states", options.states, 0.0));
  return options;
}

Arrays ZoneoutCell::begin_state(std::int64_t batch_size, Device device) const {
  Arrays states = cell()->begin_state(batch_size, device);
  if (options_.outputs > 0)
    states.push_back(zeros(states[0].shape(), {.dtype = states[0].dtype(), .device = device}));
  return states;
}

Arrays ZoneoutCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1 + num_states());
  const std::size_t states = cell()->num_states();
  Arrays results = cell().call(inputs.first(1 + states), call_site());
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
