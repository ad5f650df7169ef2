// The operator foreach: a loop as a node of a graph.
#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>

namespace sluice::control {

namespace {

constexpr const char* k_name = "foreach";

LoopParts parts_of(const ForeachAttributes& a, std::size_t inputs) {
  const LoopParts parts(k_name, a.body, a.data, a.states, a.sums);
  const std::size_t takes = parts.data + parts.states + parts.captured + a.counted;
  require<ValueError>(parts.data > 0 && takes == inputs && (!a.saves || parts.states <= parts.stacked), [&] {
    return message(k_name, ": a loop over ", parts.data, " arrays takes ", takes, " inputs, was given ", inputs);
  });
  return parts;
}

// What a turn is given of such inputs.
std::vector<ArraySpec> specs_of_turn(const LoopParts& parts, std::span<const ArraySpec> inputs) {
  std::vector<ArraySpec> specs(
      inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(parts.data + parts.states + parts.captured));
  for (std::size_t i = 0; i < parts.data; ++i) {
    require<ShapeError>(!specs[i].shape.empty() && specs[i].shape[0] == specs[0].shape[0], [&] {
      return message(k_name, ": data of shapes ", inputs[0].shape, " and ", inputs[i].shape, " cannot be gone through");
    });
    if (i > 0)
      specs[i].shape.erase(0);
  }
  specs[0].shape.erase(0);
  return specs;
}

void stack_specs(const LoopParts& parts, const Subgraph& body, std::int64_t length, Specs& specs) {
  const std::vector<ArraySpec> outputs = specs_of(body.graph(), body.graph().outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    specs.push_back(outputs[i]);
    if (i < parts.stacked)
      specs.back().shape.insert(0, length);
  }
}

Specs infer_foreach(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<ForeachAttributes>();
  const LoopParts parts = parts_of(a, inputs.size());
  check_body(op.name, "body", a.body, specs_of_turn(parts, inputs));
  check_states(op.name, a.body, parts);
  if (a.counted)
    check_predicate(op.name, inputs.back());
  Specs specs;
  stack_specs(parts, a.body, inputs[0].shape[0], specs);
  return specs;
}

bool normalise_foreach(const RawCall& call, NormalCall& normal) {
  const auto& a = call.attributes.as<ForeachAttributes>();
  const std::vector<ArraySpec> specs = specs_of_turn(parts_of(a, call.inputs.size()), specs_of(call.inputs));
  if (a.body.takes(specs))
    return false;
  ForeachAttributes other = a;
  other.body = respecified(a.body, specs);
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.attributes = Attributes::of(std::move(other));
  return true;
}

void issue_foreach(const IssueCall& call) {
  const auto& a = call.attributes.as<ForeachAttributes>();
  const LoopParts parts = parts_of(a, call.inputs.size());
  const Arrays inputs = apart(call);
  const std::span<const NDArray> given(inputs);
  const std::int64_t length = given[0].shape()[0];
  std::int64_t turns = length;
  if (a.counted)
    turns = std::clamp<std::int64_t>(given.back().item<std::int64_t>(call.site), 0, length);
  LoopRun run(parts, a.body, call.site, call.outputs.first(parts.stacked));
  const auto states = given.subspan(parts.data, parts.states);
  run.states.assign(states.begin(), states.end());
  run.sums = call.outputs.subspan(parts.stacked + parts.states);
  for (std::int64_t turn = 0; turn < turns; ++turn)
    run.turn(
        given.first(parts.data),
        given.subspan(parts.data + parts.states, parts.captured),
        a.reverse ? turns - 1 - turn : turn);
  run.finish(turns, length, call.outputs.subspan(parts.stacked, parts.states), a.saves ? parts.states : 0);
}

Mask saved_outputs_for(Mask, const Attributes& attributes) {
  const auto& a = attributes.as<ForeachAttributes>();
  return a.saves ? saved_states_mask({k_name, a.body, a.data, a.states, a.sums}) : k_none;
}

// A graph that was traced without a tape: the loop again, which says the states of each turn.
Arrays states_again(const GradientCall& call, const LoopParts& parts) {
  ForeachAttributes saving = call.attributes.as<ForeachAttributes>();
  saving.body = with_saved_states(saving.body, parts);
  saving.saves = true;
  const Arrays all = invoke(k_foreach, call.inputs, Attributes::of(std::move(saving)), SourceLocation::current());
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(parts.stacked);
  return {begin, begin + static_cast<std::ptrdiff_t>(parts.states)};
}

Arrays foreach_gradient(const GradientCall& call) {
  const auto& a = call.attributes.as<ForeachAttributes>();
  const LoopParts parts = parts_of(a, call.inputs.size());
  const Arrays again = a.saves ? Arrays{} : states_again(call, parts);
  LoopTape tape{
      .body = a.body,
      .parts = parts,
      .data = call.inputs.first(parts.data),
      .captured = call.inputs.subspan(parts.data + parts.states, parts.captured),
      .saved_states =
          a.saves ? call.outputs.subspan(parts.stacked - parts.states, parts.states) : std::span<const NDArray>(again),
      .count = a.counted ? std::optional(call.inputs.back()) : std::nullopt,
      .reverse = a.reverse,
      .stacked_grads = call.output_grads.first(parts.stacked),
      .state_grads = call.output_grads.subspan(parts.stacked, parts.states),
      .sum_grads = call.output_grads.subspan(parts.stacked + parts.states),
      .wanted_data = call.wanted.first(parts.data),
      .wanted_captured = call.wanted.subspan(parts.data + parts.states, parts.captured)};
  Arrays gradients = loop_gradient(tape);
  if (a.counted)
    gradients.push_back({});
  return gradients;
}

}  // namespace

const Operator k_foreach{
    .name = "foreach",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<ForeachAttributes>,
    .normalise = normalise_foreach,
    .infer = infer_foreach,
    .issue = issue_foreach,
    .gradient = foreach_gradient,
    .saved_inputs = k_all,
    .saved_outputs = k_all,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .capturable = false,
    .saved_outputs_for = saved_outputs_for};

}  // namespace sluice::control
