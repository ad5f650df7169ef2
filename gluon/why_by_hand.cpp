#include <algorithm>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/why_by_hand.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::gluon::detail {

namespace {

std::string call_text(const graph::Node& node) {
  return message(node.op->name, " (", describe(node.site), ')');
}

bool is_on_gpu(const graph::Graph& graph, const graph::Node& node) {
  const auto lies_there = [&](graph::ValueId value) { return graph.values[value].spec.device.is_gpu(); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), lies_there) ||
         std::any_of(node.results.begin(), node.results.end(), [&](const graph::Result& result) {
           return lies_there(result.value);
         });
}

}  // namespace

std::string why_writing(const graph::Graph& graph) {
  const graph::Node* const writer = graph::writer_of_inputs(graph);
  return writer == nullptr ? "" : "forward writes an array that it is given: " + call_text(*writer);
}

std::string why_reading(const graph::Graph& graph, std::span<const NDArray> recorded) {
  const auto is_one = [&](graph::ValueId value) {
    const NDArray& array = graph.values[value].array;
    return array.defined() && std::any_of(recorded.begin(), recorded.end(), [&](const NDArray& one) {
             return one.object()->buffer == array.object()->buffer;
           });
  };
  const auto reader = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_one);
  });
  return "gradients go to an array that is neither an input nor a parameter" +
         (reader == graph.nodes.end() ? "" : ": " + call_text(*reader));
}

std::string why_cut(const graph::Plan& plan) {
  const std::vector<graph::Node>& nodes = plan.graph().nodes;
  if (std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) { return is_on_gpu(plan.graph(), node); }))
    return "";
  const std::vector<graph::PlanSegment> segments = plan.segments();
  std::vector<std::string> calls;
  for (const graph::PlanSegment& segment : segments) {
    if (segment.captured)
      continue;
    std::string call = message(segment.op, ' ', segment.reason, " (", describe(segment.site), ')');
    if (std::find(calls.begin(), calls.end(), call) == calls.end())
      calls.push_back(std::move(call));
  }
  if (segments.size() < 2 && calls.empty())
    return "";
  std::string text = segments.size() == 1 ? "no CUDA graph" : message("cut into ", segments.size(), " segments");
  for (std::size_t i = 0; i < calls.size(); ++i)
    text += (i == 0 ? ": " : "; ") + calls[i];
  return text;
}

}  // namespace sluice::gluon::detail
