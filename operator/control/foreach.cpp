#include <optional>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/detail/loop.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

constexpr const char* k_name = "foreach";
// As so many copies of the body a loop is planned, fused and captured as any graph is. A plan takes time and memory
// that go with its nodes, a node runs its body's plan each turn.
constexpr std::int64_t k_most_unrolled = 32;

std::int64_t length_of(const Arrays& data) {
  require<ValueError>(!data.empty(), [] { return "foreach: was given no data to go through"; });
  control::check_defined(k_name, "data", data);
  for (const NDArray& array : data) {
    require<ShapeError>(array.ndim() > 0, [] { return "foreach: data without axes has no entries"; });
    require<ShapeError>(array.shape()[0] == data[0].shape()[0], [&] {
      return message(
          "foreach: data of shapes ", data[0].shape(), " and ", array.shape(), " have other numbers of entries");
    });
  }
  return data[0].shape()[0];
}

std::vector<ArraySpec> specs_of_entries(const Arrays& data) {
  std::vector<ArraySpec> specs;
  for (const NDArray& array : data) {
    specs.push_back({array.shape(), array.dtype(), array.device()});
    specs.back().shape.erase(0);
  }
  return specs;
}

// What no turn gave: on the tape where data and states are, as what turns give is.
Arrays of_no_turn(
    const std::vector<ArraySpec>& outputs, const Arrays& data, const Arrays& states, SourceLocation site) {
  Arrays none;
  for (const ArraySpec& spec : outputs) {
    Shape shape = spec.shape;
    shape.insert(0, 0);
    NDArray made = zeros(shape, {.dtype = spec.dtype, .device = spec.device}, site);
    for (const Arrays* from : {&data, &states}) {
      for (const NDArray& x : *from) {
        if (!is_floating(spec.dtype) || !is_floating(x.dtype()))
          continue;
        const NDArray nothing = sum(x.reshape({-1}, site).slice(0, 0, 0, 1, site), {0}, false, site);
        made = add(made, nothing.astype(spec.dtype, site), site);
      }
    }
    none.push_back(std::move(made));
  }
  return none;
}

// Turn by turn; calls that are taken come to the sink one after the other.
LoopResult unrolled(const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site) {
  const std::int64_t length = data[0].shape()[0];
  control::Turns turns(k_name, states);
  std::vector<std::vector<NDArray>> entries;
  for (const NDArray& array : data)
    entries.push_back(control::entries_of(array, site));
  for (std::int64_t turn = 0; turn < length; ++turn) {
    Arrays here;
    for (const auto& array : entries)
      here.push_back(array[static_cast<std::size_t>(turn)]);
    turns.add(body(here, turns.states()));
  }
  if (length == 0)
    return {
        of_no_turn(control::specs_of_outputs(body, specs_of_entries(data), states, k_name), data, states, site),
        states};
  return {turns.stacked(length, site), turns.states()};
}

// A node that holds the body, unless that must be unrolled.
std::optional<LoopResult> as_node(
    const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site) {
  std::vector<ArraySpec> specs = specs_of_entries(data);
  const std::vector<ArraySpec> of_states = control::specs_of(states);
  specs.insert(specs.end(), of_states.begin(), of_states.end());
  control::Body traced = control::trace_body(
      [&](const Arrays& inputs) {
        const auto behind = inputs.begin() + static_cast<std::ptrdiff_t>(data.size());
        LoopResult result = body({inputs.begin(), behind}, {behind, inputs.end()});
        control::Turns(k_name, {behind, inputs.end()}).add(result);
        result.outputs.insert(result.outputs.end(), result.states.begin(), result.states.end());
        return result.outputs;
      },
      specs);
  if (control::why_not_repeatable(traced.graph) != nullptr)
    return std::nullopt;
  Arrays inputs = data;
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.insert(inputs.end(), traced.captured.begin(), traced.captured.end());
  control::ForeachAttributes attributes{
      .body = control::Subgraph(std::move(traced.graph)),
      .data = std::ssize(data),
      .states = std::ssize(states),
      .saves = autograd::is_recording() && detail::is_recorded(inputs)};
  const control::LoopParts parts(k_name, attributes.body, attributes.data, attributes.states, 0);
  if (attributes.saves)
    attributes.body = control::with_saved_states(attributes.body, parts);
  const Arrays all = invoke(control::k_foreach, inputs, Attributes::of(std::move(attributes)), site);
  const auto outputs = all.begin() + static_cast<std::ptrdiff_t>(parts.stacked);
  return LoopResult{{all.begin(), outputs}, {all.end() - static_cast<std::ptrdiff_t>(states.size()), all.end()}};
}

}  // namespace

LoopResult foreach(const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site) {
  return detail::located(site, [&]() -> LoopResult {
    if (length_of(data) > k_most_unrolled && detail::sink_here() != nullptr) {
      control::check_defined(k_name, "state", states);
      if (std::optional<LoopResult> result = as_node(body, data, states, site))
        return *std::move(result);
    }
    return unrolled(body, data, states, site);
  });
}

}  // namespace sluice
