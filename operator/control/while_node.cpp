// The operator while_loop: a loop as a node of a graph, whose turns are counted when it runs.
#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/control/detail/while_parts.h>
#include <sluice/operator/invoke.h>

namespace sluice::control {

namespace {

constexpr const char* k_name = "while_loop";

Specs infer_while(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<WhileAttributes>();
  const WhileParts parts(a, inputs.size());
  check_body(op.name, "condition", a.condition, parts.of_condition(inputs));
  check_body(op.name, "body", a.body, parts.of_body(inputs));
  check_states(op.name, a.body, parts.body);
  check_predicate(op.name, specs_of(a.condition.graph(), a.condition.graph().outputs)[0]);
  Specs specs;
  for (const ArraySpec& output : specs_of(a.body.graph(), a.body.graph().outputs)) {
    specs.push_back(output);
    if (specs.size() <= parts.body.stacked)
      specs.back().shape.insert(0, a.max_iterations);
  }
  specs.push_back({{}, int64, inputs[0].device});
  return specs;
}

bool normalise_while(const RawCall& call, NormalCall& normal) {
  const auto& a = call.attributes.as<WhileAttributes>();
  const WhileParts parts(a, call.inputs.size());
  const std::vector<ArraySpec> specs = specs_of(call.inputs);
  const auto asked = parts.of_condition(std::span(specs)), turned = parts.of_body(std::span(specs));
  if (a.condition.takes(asked) && a.body.takes(turned))
    return false;
  WhileAttributes other = a;
  other.condition = respecified(a.condition, asked);
  other.body = respecified(a.body, turned);
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.attributes = Attributes::of(std::move(other));
  return true;
}

// Where the host asks: in a CUDA graph it is a BoundLoop.
void issue_while(const IssueCall& call) {
  const auto& a = call.attributes.as<WhileAttributes>();
  const WhileParts parts(a, call.inputs.size());
  const Arrays inputs = apart(call);
  const std::span<const NDArray> given(inputs);
  const auto states = given.first(parts.body.states), asked = given.subspan(parts.body.states, parts.asked);
  LoopRun run(parts.body, a.body, call.site, call.outputs.first(parts.body.stacked));
  run.states.assign(states.begin(), states.end());
  const auto goes_on = [&] {
    Arrays vars = run.states;
    vars.insert(vars.end(), asked.begin(), asked.end());
    return truth_of(k_name, a.condition.run(vars, call.site)[0], call.site);
  };
  std::int64_t turns = 0;
  for (; turns < a.max_iterations && goes_on(); ++turns)
    run.turn({}, given.last(parts.body.captured), turns);
  run.finish(
      turns,
      a.max_iterations,
      call.outputs.subspan(parts.body.stacked, parts.body.states),
      a.saves ? parts.body.states : 0);
  sluice::detail::push_fill(call.outputs.back(), turns, call.site);
}

// Of the outputs the states of each turn, and the number of turns.
Mask saved_outputs_for(Mask, const Attributes& attributes) {
  const auto& a = attributes.as<WhileAttributes>();
  const LoopParts parts(k_name, a.body, 0, a.states, 0);
  return a.saves ? saved_states_mask(parts) | mask_of(parts.stacked + parts.states) : k_none;
}

Arrays again(const GradientCall& call, const LoopParts& parts) {
  WhileAttributes saving = call.attributes.as<WhileAttributes>();
  saving.body = with_saved_states(saving.body, parts);
  saving.saves = true;
  const Arrays all = invoke(k_while_loop, call.inputs, Attributes::of(std::move(saving)), SourceLocation::current());
  return {all.begin() + static_cast<std::ptrdiff_t>(parts.stacked), all.end()};
}

Arrays while_gradient(const GradientCall& call) {
  const auto& a = call.attributes.as<WhileAttributes>();
  const WhileParts parts(a, call.inputs.size());
  const std::size_t states = parts.body.states, stacked = parts.body.stacked;
  const Arrays other = a.saves ? Arrays{} : again(call, parts.body);
  const std::span<const NDArray> saved = a.saves ? call.outputs.subspan(stacked - states) : other;
  const Arrays found = loop_gradient(
      {.body = a.body,
       .parts = parts.body,
       .data = {},
       .captured = call.inputs.last(parts.body.captured),
       .saved_states = saved.first(states),
       .count = saved.back(),
       .reverse = false,
       .stacked_grads = call.output_grads.first(stacked),
       .state_grads = call.output_grads.subspan(stacked, states),
       .sum_grads = {},
       .wanted_data = {},
       .wanted_captured = call.wanted.last(parts.body.captured)});
  Arrays gradients(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(states));
  gradients.resize(states + parts.asked);
  gradients.insert(gradients.end(), found.begin() + static_cast<std::ptrdiff_t>(states), found.end());
  return gradients;
}

}  // namespace

const Operator k_while_loop{
    .name = k_name,
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<WhileAttributes>,
    .normalise = normalise_while,
    .infer = infer_while,
    .issue = issue_while,
    .gradient = while_gradient,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .capturable = false,
    .saved_outputs_for = saved_outputs_for};

}  // namespace sluice::control
