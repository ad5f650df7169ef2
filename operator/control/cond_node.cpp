// The operator cond: a branch as a node of a graph, taken when it runs.
#include <algorithm>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/detail/cond_parts.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/invoke.h>

namespace sluice::control {

namespace {

constexpr const char* k_name = "cond";

Specs infer_cond(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<CondAttributes>();
  const CondParts parts(a, inputs.size());
  check_predicate(op.name, inputs[0]);
  check_body(op.name, "first body", a.then_body, parts.of(true, inputs));
  check_body(op.name, "second body", a.else_body, parts.of(false, inputs));
  const auto first = specs_of(a.then_body.graph(), a.then_body.graph().outputs);
  const auto second = specs_of(a.else_body.graph(), a.else_body.graph().outputs);
  require<ValueError>(first.size() == second.size(), [&] {
    return message(op.name, ": its bodies give ", first.size(), " and ", second.size(), " arrays");
  });
  for (std::size_t i = 0; i < first.size(); ++i)
    check_same(op.name, message("result ", i, " of its second body"), second[i], first[i]);
  return {first.begin(), first.end()};
}

bool normalise_cond(const RawCall& call, NormalCall& normal) {
  const auto& a = call.attributes.as<CondAttributes>();
  const CondParts parts(a, call.inputs.size());
  const std::vector<ArraySpec> specs = specs_of(call.inputs);
  const auto first = parts.of(true, std::span(specs)), second = parts.of(false, std::span(specs));
  if (a.then_body.takes(first) && a.else_body.takes(second))
    return false;
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.attributes = Attributes::of(CondAttributes{
      .then_body = respecified(a.then_body, first), .else_body = respecified(a.else_body, second), .inputs = a.inputs});
  return true;
}

// Where the host chooses: in a CUDA graph it is a BoundBranch.
void issue_cond(const IssueCall& call) {
  const auto& a = call.attributes.as<CondAttributes>();
  const CondParts parts(a, call.inputs.size());
  const Arrays inputs = apart(call);
  const bool truth = truth_of(k_name, inputs[0], call.site);
  const std::vector<NDArray> given = parts.of(truth, std::span<const NDArray>(inputs));
  const Arrays results = (truth ? a.then_body : a.else_body).run(given, call.site);
  for (std::size_t i = 0; i < results.size(); ++i)
    sluice::detail::push_copy(results[i], call.outputs[i], call.site);
}

/// One side's gradients: of what both are given, of what this one uses beside, and zeros for what the other one does.
Body derive_side(
    const CondAttributes& a,
    const CondParts& parts,
    bool truth,
    const std::vector<bool>& wanted,
    const std::vector<bool>& heads) {
  const graph::Graph &own = (truth ? a.then_body : a.else_body).graph(),
                     &other = (truth ? a.else_body : a.then_body).graph();
  const std::size_t captured = truth ? parts.first : parts.second;
  std::vector<Wanted> questions;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i])
      continue;
    const bool is_first = i < parts.shared + parts.first;
    if (i < parts.shared)
      questions.push_back({.input = i});
    else if (is_first == truth)
      questions.push_back({.input = truth ? i : i - parts.first});
    else
      questions.push_back({.spec = other.values[other.inputs[truth ? i - parts.first : i]].spec});
  }
  Body derived = derive(own, questions, heads);
  // The gradients of results are for both sides too.
  const auto from = derived.graph.inputs.begin() + static_cast<std::ptrdiff_t>(parts.shared);
  const auto middle = from + static_cast<std::ptrdiff_t>(captured);
  std::rotate(from, middle, middle + std::count(heads.begin(), heads.end(), true));
  return derived;
}

GradientNode make_gradient(
    const CondAttributes& a, const CondParts& parts, const std::vector<bool>& wanted, const std::vector<bool>& heads) {
  Body first = derive_side(a, parts, true, wanted, heads), second = derive_side(a, parts, false, wanted, heads);
  GradientNode node{.beside = a.else_body};
  node.captured = std::move(first.captured);
  node.captured.insert(node.captured.end(), second.captured.begin(), second.captured.end());
  node.attributes = Attributes::of(CondAttributes{
      .then_body = Subgraph(std::move(first.graph)),
      .else_body = Subgraph(std::move(second.graph)),
      .inputs = static_cast<std::int64_t>(parts.shared) + std::count(heads.begin(), heads.end(), true)});
  return node;
}

// The same branch once more, with gradients: another cond.
Arrays cond_gradient(const GradientCall& call) {
  const auto& a = call.attributes.as<CondAttributes>();
  const CondParts parts(a, call.inputs.size());
  const std::vector<bool> wanted(call.wanted.begin() + 1, call.wanted.end());
  std::vector<bool> heads;
  for (const NDArray& gradient : call.output_grads)
    heads.push_back(gradient.defined());
  const GradientNode& node = a.then_body.gradient(message(key_of(wanted, heads), ':', a.else_body.address()), [&] {
    return make_gradient(a, parts, wanted, heads);
  });
  const auto& attributes = node.attributes.as<CondAttributes>();
  const std::size_t of_first =
      attributes.then_body.graph().inputs.size() - static_cast<std::size_t>(attributes.inputs) - parts.first;

  Arrays inputs(call.inputs.begin(), call.inputs.begin() + 1 + static_cast<std::ptrdiff_t>(parts.shared));
  std::copy_if(
      call.output_grads.begin(), call.output_grads.end(), std::back_inserter(inputs), [](const NDArray& gradient) {
        return gradient.defined();
      });
  const auto add = [&](std::span<const NDArray> arrays) { inputs.insert(inputs.end(), arrays.begin(), arrays.end()); };
  const std::span<const NDArray> captured(node.captured);
  add(call.inputs.subspan(1 + parts.shared, parts.first));
  add(captured.first(of_first));
  add(call.inputs.last(parts.second));
  add(captured.subspan(of_first));
  const Arrays found = invoke(k_cond, inputs, node.attributes, SourceLocation::current());
  Arrays gradients(call.wanted.size());
  for (std::size_t i = 0, next = 0; i < wanted.size(); ++i) {
    if (wanted[i])
      gradients[i + 1] = found[next++];
  }
  return gradients;
}

}  // namespace

const Operator k_cond{
    .name = k_name,
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<CondAttributes>,
    .normalise = normalise_cond,
    .infer = infer_cond,
    .issue = issue_cond,
    .gradient = cond_gradient,
    .saved_inputs = k_all,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .capturable = false};

}  // namespace sluice::control

sluice::detail::OperatorList sluice::detail::control_operators() noexcept {
  static constexpr const Operator* list[] = {&control::k_cond, &control::k_foreach, &control::k_while_loop};
  return list;
}
