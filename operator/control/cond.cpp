#include <utility>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/attributes.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>

namespace sluice {

namespace {

constexpr const char* k_name = "cond";

control::Body traced(const Branch& branch, const char* what, const Arrays& inputs) {
  control::Body body = control::trace_body(
      [&](const Arrays& given) {
        Arrays results = branch(given);
        control::check_defined(k_name, "result", results);
        return results;
      },
      control::specs_of(inputs));
  control::check_repeatable(k_name, what, body);
  return body;
}

void check_alike(const graph::Graph& a, const graph::Graph& b) {
  require<ValueError>(a.outputs.size() == b.outputs.size(), [&] {
    return message(
        "cond: the first body gives ",
        a.outputs.size(),
        " arrays, the second ",
        b.outputs.size(),
        "; one node gives one number");
  });
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    control::check_same(
        k_name, message("result ", i, " of the second body"), b.values[b.outputs[i]].spec, a.values[a.outputs[i]].spec);
}

// Both sides as graphs: which one runs is decided when the node does.
Arrays as_node(
    const NDArray& predicate,
    const Branch& then_body,
    const Branch& else_body,
    const Arrays& inputs,
    SourceLocation site) {
  control::check_defined(k_name, "predicate", {&predicate, 1});
  control::check_predicate(k_name, detail::spec_of(predicate));
  control::Body first = traced(then_body, "first body", inputs), second = traced(else_body, "second body", inputs);
  check_alike(first.graph, second.graph);
  Arrays all{predicate};
  all.insert(all.end(), inputs.begin(), inputs.end());
  all.insert(all.end(), first.captured.begin(), first.captured.end());
  all.insert(all.end(), second.captured.begin(), second.captured.end());
  if (all.size() > 1)
    all[0] = predicate.to(all[1].device(), site);
  if (first.graph.outputs.empty())
    return {};
  control::CondAttributes attributes{
      .then_body = control::Subgraph(std::move(first.graph)),
      .else_body = control::Subgraph(std::move(second.graph)),
      .inputs = std::ssize(inputs)};
  return invoke(control::k_cond, all, Attributes::of(std::move(attributes)), site);
}

}  // namespace

Arrays cond(
    const NDArray& predicate,
    const Branch& then_body,
    const Branch& else_body,
    const Arrays& inputs,
    SourceLocation site) {
  return detail::located(site, [&]() -> Arrays {
    control::check_defined(k_name, "input", inputs);
    if (detail::sink_here() != nullptr)
      return as_node(predicate, then_body, else_body, inputs, site);
    Arrays results = control::truth_of(k_name, predicate, site) ? then_body(inputs) : else_body(inputs);
    control::check_defined(k_name, "result", results);
    return results;
  });
}

}  // namespace sluice
