#include <algorithm>
#include <cstring>

#include <sluice/engine/origin.h>
#include <sluice/operator/control/subgraph.h>
#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/detail/json_text.h>
#include <sluice/operator/graph/detail/nested.h>
#include <sluice/operator/graph/detail/node_text.h>

namespace sluice::graph {

using namespace file_format;

namespace {

struct AttributeText {
  std::optional<Device> here;

  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  std::string operator()(double value) const { return "{\"real\": " + in_quotes(number(value)) + '}'; }
  std::string operator()(DType value) const { return "{\"dtype\": " + in_quotes(name_of(value)) + '}'; }
  std::string operator()(Device value) const {
    return "{\"device\": " + in_quotes(here == value ? std::string(k_here) : to_string(value)) + '}';
  }
  std::string operator()(const std::vector<std::int64_t>& list) const { return whole_numbers(list); }
  std::string operator()(const std::vector<double>& list) const {
    return "{\"reals\": [" + listed(list, ", ", [](double entry) { return in_quotes(number(entry)); }) + "]}";
  }
};

std::string call(SourceLocation site) {
  const Origin* const origin = Origin::of(site);
  const char* const slash = std::strrchr(site.file, '/');  // folders are the writer's own affair
  return "{\"layer\": " + in_quotes(origin == nullptr ? "" : origin->what()) +
         ", \"file\": " + in_quotes(slash == nullptr ? site.file : slash + 1) +
         ", \"line\": " + std::to_string(site.line) + '}';
}

}  // namespace

std::string value_text(const AttributeValue& value, std::optional<Device> here) {
  return std::visit(AttributeText{here}, value);
}

// In a file values are numbered as they are made.
std::string NodeText::define(ValueId id) {
  numbers_[id] = next_++;
  const ArraySpec& spec = graph_.values[id].spec;
  std::string text = "\"value\": " + std::to_string(numbers_[id]) + ", \"shape\": " + whole_numbers(spec.shape) +
                     ", \"dtype\": " + in_quotes(name_of(spec.dtype));
  return text + device_of(spec);
}
std::string NodeText::device_of(const ArraySpec& spec) const {
  return here_ == spec.device ? "" : ", \"device\": " + in_quotes(to_string(spec.device));
}
std::string NodeText::numbered(ValueId id) const {
  require<ValueError>(numbers_[id] != k_none, [&] {
    return message("graph file: value ", id, " is used and not made; constants must be inputs");
  });
  return std::to_string(numbers_[id]);
}

// Of an input that only gives its shape, that; random numbers are drawn by whoever runs the graph.
std::string NodeText::operands(const Node& node) const {
  std::string text;
  for (const ValueId id : node.inputs) {
    const Value& value = graph_.values[id];
    if (value.source == Source::random)
      continue;
    text += text.empty() ? "" : ", ";
    if (value.source == Source::shape)
      text += "{\"shape\": " + whole_numbers(value.spec.shape) +
              ", \"dtype\": " + in_quotes(name_of(value.spec.dtype)) + device_of(value.spec) + '}';
    else
      text += numbered(id);
  }
  return '[' + text + ']';
}

std::string NodeText::attributes(const Node& node) const {
  if (node.attributes.empty())
    return "null";
  const auto subgraphs = control::subgraphs_of(node);
  return '{' +
         listed(
             node.attributes.values(),
             ", ",
             [&](const NamedValue& field) {
               const auto nested = std::find_if(
                   subgraphs.begin(), subgraphs.end(), [&](const auto& one) { return one.first == field.name; });
               const std::string text = nested == subgraphs.end()
                                            ? value_text(field.value, here_)
                                            : "{\"graph\": " + nested_text(nested->second.graph(), here_) + '}';
               return in_quotes(field.name) + ": " + text;
             }) +
         '}';
}

std::string NodeText::line_of(const Node& node) {
  const bool is_known = find_operator(node.op->name) == node.op;
  require<ValueError>(is_known || !here_, [&] {
    return message(
        "graph file: no reader could find the operator '", node.op->name, "'; register_operator() makes it known");
  });
  const std::string name = is_known ? node.op->name : message(node.op->name, '@', static_cast<const void*>(node.op));
  std::string text = "{\"op\": " + in_quotes(name) + ", \"inputs\": " + operands(node);
  text += ", \"attributes\": " + attributes(node) + ", \"results\": [";
  text += listed(node.results, ", ", [&](const Result& result) {
    return '{' + (result.made ? define(result.value) : "\"into\": " + numbered(result.value)) + '}';
  });
  return text + (here_ ? "], \"call\": " + call(node.site) + '}' : "]}");
}

std::string nested_text(const Graph& graph, std::optional<Device> here) {
  NodeText text(graph, here);
  const auto defined = [&](ValueId id) { return '{' + text.define(id) + '}'; };
  std::string made = "{\"inputs\": [" + listed(graph.inputs, ", ", defined);
  made += "], \"nodes\": [" + listed(graph.nodes, ", ", [&](const Node& node) { return text.line_of(node); });
  made += "], \"outputs\": [" + listed(graph.outputs, ", ", [&](ValueId id) { return text.numbered(id); });
  return made + "]}";
}

}  // namespace sluice::graph
