#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>

namespace sluice {

namespace {

constexpr const char* k_name = "while_loop";

LoopResult turn_by_turn(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site) {
  control::Turns turns(k_name, loop_vars);
  while (turns.taken() < max_iterations && control::truth_of(k_name, condition(turns.states()), site))
    turns.add(body(turns.states()));
  if (turns.taken() == 0)
    turns.none_taken(control::specs_of_outputs(
        [&](const Arrays&, const Arrays& states) { return body(states); }, {}, loop_vars, k_name));
  return {turns.stacked(max_iterations, site), turns.states()};
}

control::Body traced_condition(const LoopCondition& condition, const Arrays& loop_vars) {
  control::Body body = control::trace_body(
      [&](const Arrays& vars) {
        const NDArray predicate = condition(vars);
        control::check_defined(k_name, "predicate", {&predicate, 1});
        control::check_predicate(k_name, detail::spec_of(predicate));
        return Arrays{predicate};
      },
      control::specs_of(loop_vars));
  control::check_repeatable(k_name, "condition", body);
  return body;
}

control::Body traced_body(const LoopBody& body, const Arrays& loop_vars) {
  control::Body traced = control::trace_body(
      [&](const Arrays& vars) {
        LoopResult result = body(vars);
        control::Turns(k_name, vars).add(result);
        result.outputs.insert(result.outputs.end(), result.states.begin(), result.states.end());
        return result.outputs;
      },
      control::specs_of(loop_vars));
  control::check_repeatable(k_name, "body", traced);
  return traced;
}

LoopResult as_node(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site) {
  control::Body asked = traced_condition(condition, loop_vars), turned = traced_body(body, loop_vars);
  Arrays inputs = loop_vars;
  inputs.insert(inputs.end(), asked.captured.begin(), asked.captured.end());
  inputs.insert(inputs.end(), turned.captured.begin(), turned.captured.end());
  control::WhileAttributes attributes{
      .condition = control::Subgraph(std::move(asked.graph)),
      .body = control::Subgraph(std::move(turned.graph)),
      .states = std::ssize(loop_vars),
      .max_iterations = max_iterations,
      .saves = autograd::is_recording() && detail::is_recorded(inputs)};
  const control::LoopParts parts(k_name, attributes.body, 0, attributes.states, 0);
  if (attributes.saves)
    attributes.body = control::with_saved_states(attributes.body, parts);
  const Arrays all = invoke(control::k_while_loop, inputs, Attributes::of(std::move(attributes)), site);
  const auto states = all.end() - 1 - static_cast<std::ptrdiff_t>(parts.states);  // behind them the number of turns
  return {{all.begin(), all.begin() + static_cast<std::ptrdiff_t>(parts.stacked)}, {states, all.end() - 1}};
}

}  // namespace

LoopResult while_loop(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site) {
  return detail::located(site, [&]() -> LoopResult {
    require<ValueError>(!loop_vars.empty(), [] { return "while_loop: was given no loop_vars"; });
    require<ValueError>(
        max_iterations >= 0, [&] { return message("while_loop: max_iterations of ", max_iterations, " is negative"); });
    control::check_defined(k_name, "state", loop_vars);
    if (detail::sink_here() != nullptr)
      return as_node(condition, body, loop_vars, max_iterations, site);
    return turn_by_turn(condition, body, loop_vars, max_iterations, site);
  });
}

}  // namespace sluice
