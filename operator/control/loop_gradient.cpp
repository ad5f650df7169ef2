#include <algorithm>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/invoke.h>

namespace sluice::control {

namespace {

/// Which gradients a turn back computes, and of which it is given.
struct Question {
  std::vector<bool> wanted;  // by input of the body
  std::vector<bool> heads;   // by output

  explicit Question(const LoopTape& tape) {
    const LoopParts& parts = tape.parts;
    const graph::Graph& graph = tape.body.graph();
    const auto is_state_floating = [&](std::size_t i) {
      return is_floating(graph.values[graph.inputs[parts.data + i]].spec.dtype);
    };
    wanted.assign(tape.wanted_data.begin(), tape.wanted_data.end());
    for (std::size_t i = 0; i < parts.states; ++i)
      wanted.push_back(is_state_floating(i));
    wanted.insert(wanted.end(), tape.wanted_captured.begin(), tape.wanted_captured.end());
    for (const NDArray& gradient : tape.stacked_grads)
      heads.push_back(gradient.defined());
    for (std::size_t i = 0; i < parts.states; ++i)
      heads.push_back(is_state_floating(i));
    for (const NDArray& gradient : tape.sum_grads)
      heads.push_back(gradient.defined());
  }
};

std::ptrdiff_t count(const std::vector<bool>& list, std::size_t begin, std::size_t size) {
  const auto from = list.begin() + static_cast<std::ptrdiff_t>(begin);
  return std::count(from, from + static_cast<std::ptrdiff_t>(size), true);
}

// derive() has the body's inputs first and then the gradients; a loop has what it goes through first, and then states.
GradientNode make_node(const LoopTape& tape, const Question& question) {
  const LoopParts& parts = tape.parts;
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < question.wanted.size(); ++i) {
    if (question.wanted[i])
      wanted.push_back({.input = i});
  }
  Body derived = derive(tape.body.graph(), wanted, question.heads);
  std::vector<graph::ValueId>& inputs = derived.graph.inputs;
  const auto captured = inputs.begin() + static_cast<std::ptrdiff_t>(parts.data + parts.states);
  const auto stacked = count(question.heads, 0, parts.stacked);
  const auto states = count(question.heads, parts.stacked, parts.states);
  std::rotate(
      captured,
      captured + static_cast<std::ptrdiff_t>(parts.captured),
      captured + static_cast<std::ptrdiff_t>(parts.captured) + stacked + states);
  ForeachAttributes attributes{
      .body = Subgraph(std::move(derived.graph)),
      .data = static_cast<std::int64_t>(parts.data + parts.states) + stacked,
      .states = states,
      .sums = count(question.wanted, parts.data + parts.states, parts.captured),
      .reverse = !tape.reverse,
      .counted = tape.count.has_value(),
      .saves = false};
  if (autograd::is_recording()) {
    const LoopParts own("foreach", attributes.body, attributes.data, attributes.states, attributes.sums);
    attributes.body = with_saved_states(attributes.body, own);
    attributes.saves = true;
  }
  return {Attributes::of(std::move(attributes)), std::move(derived.captured)};
}

Arrays inputs_of(const LoopTape& tape, const Question& question, const GradientNode& node) {
  const LoopParts& parts = tape.parts;
  const graph::Graph& graph = tape.body.graph();
  Arrays inputs(tape.data.begin(), tape.data.end());
  inputs.insert(inputs.end(), tape.saved_states.begin(), tape.saved_states.end());
  const auto add_defined = [&](std::span<const NDArray> gradients) {
    std::copy_if(gradients.begin(), gradients.end(), std::back_inserter(inputs), [](const NDArray& gradient) {
      return gradient.defined();
    });
  };
  add_defined(tape.stacked_grads);
  for (std::size_t i = 0; i < parts.states; ++i) {
    if (!question.heads[parts.stacked + i])
      continue;
    const ArraySpec& spec = graph.values[graph.inputs[parts.data + i]].spec;
    const NDArray& given = tape.state_grads[i];
    inputs.push_back(given.defined() ? given : zeros(spec.shape, {.dtype = spec.dtype, .device = spec.device}));
  }
  inputs.insert(inputs.end(), tape.captured.begin(), tape.captured.end());
  add_defined(tape.sum_grads);
  inputs.insert(inputs.end(), node.captured.begin(), node.captured.end());
  if (tape.count)
    inputs.push_back(*tape.count);
  return inputs;
}

}  // namespace

Arrays loop_gradient(const LoopTape& tape) {
  const Question question(tape);
  const std::string key = message(
      key_of(question.wanted, question.heads),
      tape.reverse,
      tape.count.has_value(),
      ':',
      tape.parts.data,
      ':',
      tape.parts.states);
  const GradientNode& node = tape.body.gradient(key, [&] { return make_node(tape, question); });
  const Arrays found = invoke(k_foreach, inputs_of(tape, question, node), node.attributes, SourceLocation::current());
  // Entries of data, what is saved of the turns back, states, captured.
  const LoopParts& parts = tape.parts;
  const auto& attributes = node.attributes.as<ForeachAttributes>();
  Arrays gradients(question.wanted.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < question.wanted.size(); ++i) {
    if (i == parts.data && attributes.saves)
      next += static_cast<std::size_t>(attributes.states);
    if (question.wanted[i])
      gradients[i] = found[next++];
  }
  return gradients;
}

}  // namespace sluice::control
