// Graphs for people: lines of text, and pictures.
#include <algorithm>

#include <sluice/engine/origin.h>
#include <sluice/operator/control/subgraph.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/graph/detail/labels.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

std::string name_of(const Graph& graph, ValueId id) {
  switch (graph.values[id].source) {
    case Source::constant:
      return message('@', id);
    case Source::random:
      return message("random ", id);
    case Source::shape:
      return message("shape ", graph.values[id].spec.shape);
    case Source::input:
    case Source::result:
      break;
  }
  return message('%', id);
}

std::string typed(const Graph& graph, ValueId id) {
  const ArraySpec& spec = graph.values[id].spec;
  return message(name_of(graph, id), ": ", spec.dtype, ' ', spec.shape);
}

// But for graphs, which stand below.
std::string attributes_of(const Node& node) {
  std::string text;
  const auto subgraphs = control::subgraphs_of(node);
  for (const NamedValue& field : node.attributes.values()) {
    const bool is_graph =
        std::any_of(subgraphs.begin(), subgraphs.end(), [&](const auto& one) { return one.first == field.name; });
    if (!is_graph)
      text += (text.empty() ? "" : ", ") + field.name + '=' + to_string(field.value);
  }
  return text.empty() ? "" : " {" + text + '}';
}

std::string details_of(const Graph& graph, const Node& node) {
  const bool reduces = node.op == &fused::k_fused_reduction;
  if (node.op != &fused::k_fused && !reduces)
    return attributes_of(node);
  std::vector<std::string> inputs, outputs;
  for (const ValueId input : node.inputs)
    inputs.push_back(name_of(graph, input));
  for (const Result& result : node.results)
    outputs.push_back(name_of(graph, result.value));
  const std::string calls = reduces ? fused::to_text(node.attributes, inputs, outputs)
                                    : fused::to_text(fused::program_of(node.attributes), inputs, outputs);
  return " {" + calls + '}';
}

std::string label_of(const Node& node) {
  if (node.op == &fused::k_fused_reduction)
    return "fused: " + fused::names_of_calls(node.attributes);
  if (node.op != &fused::k_fused) {
    std::string label = node.op->name + attributes_of(node);
    for (const auto& [name, subgraph] : control::subgraphs_of(node)) {
      label += "; " + name + ':';
      for (const Node& inner : subgraph.graph().nodes)
        label += message(' ', inner.op->name);
    }
    return label;
  }
  return "fused: " + fused::names_of_calls(fused::program_of(node.attributes));
}

namespace {

template <class Each>
std::string listed(const std::vector<ValueId>& ids, const Each& each) {
  std::string text;
  for (const ValueId id : ids)
    text += (text.empty() ? "" : ", ") + each(id);
  return text;
}

std::string names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  return listed(ids, [&](ValueId id) { return name_of(graph, id); });
}

std::string text_of(const Graph& graph, const std::string& indent) {
  std::string text = "graph(" + listed(graph.inputs, [&](ValueId id) { return typed(graph, id); }) + ") on " +
                     (graph.values.empty() ? std::string("nothing") : message(graph.values.back().spec.device)) +
                     " {\n";
  for (const Node& node : graph.nodes) {
    std::string left;
    for (const auto [id, made] : node.results)
      left += (left.empty() ? "" : ", ") + (made ? typed(graph, id) : "into " + name_of(graph, id));
    text +=
        indent + "  " + left + (left.empty() ? "" : " = ") + node.op->name + '(' + names_of(graph, node.inputs) + ')';
    text += details_of(graph, node) + "  # " + describe(node.site) + '\n';
    for (const auto& [name, subgraph] : control::subgraphs_of(node))
      text += indent + "    " + name + ": " + text_of(subgraph.graph(), indent + "    ");
  }
  return text + indent + "  return " + names_of(graph, graph.outputs) + '\n' + indent + "}\n";
}

// A dot's label is a text in quotes.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      safe += '\\';
    safe += c;
  }
  return safe;
}

}  // namespace

std::string to_text(const Graph& graph) {
  return text_of(graph, "");
}

std::string to_dot(const Graph& graph) {
  std::string text = "digraph sluice {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.source == Source::input || value.source == Source::constant)
      text += message("  v", id, " [label=\"", escaped(typed(graph, id)), "\", shape=ellipse];\n");
  }
  std::vector<std::size_t> maker(graph.values.size(), graph.nodes.size());
  const auto edge_from = [&](ValueId id) {
    return maker[id] < graph.nodes.size() ? message('n', maker[id]) : message('v', id);
  };
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    text += message("  n", at, " [label=\"", escaped(label_of(node)), "\"];\n");
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Source source = graph.values[node.inputs[i]].source;
      if (source != Source::shape && source != Source::random)
        text += "  " + edge_from(node.inputs[i]) + message(" -> n", at, node.mutates(i) ? " [style=bold];\n" : ";\n");
    }
    for (const auto [id, made] : node.results) {
      if (made)
        maker[id] = at;
      else
        text += message("  n", at, " -> ") + edge_from(id) + " [style=bold];\n";
    }
  }
  for (const ValueId id : graph.outputs)
    text += message("  o", id, " [label=\"result\", shape=ellipse];\n  ") + edge_from(id) + message(" -> o", id, ";\n");
  return text + "}\n";
}

}  // namespace sluice::graph
