#include <mutex>
#include <set>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/detail/nested.h>
#include <sluice/operator/graph/detail/node_reader.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::graph {

namespace {

// Lives as long as the process: tasks keep where they were pushed.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto* const all = new std::set<std::string>;
  const std::lock_guard hold(mutex);
  return all->insert(text).first->c_str();
}

// What the text says of results must be what inference says.
void check_result(const Graph& graph, std::size_t at, const Arrays& results) {
  const Node& node = graph.nodes[at];
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ArraySpec& said = graph.values[node.results[i].value].spec;
    const NDArray& array = results[i];
    const bool same = array.shape() == said.shape && array.dtype() == said.dtype && array.device() == said.device;
    require<ShapeError>(same || !node.results[i].made, [&] {
      return message(
          "result ",
          i,
          " is said to be ",
          said.dtype,
          ' ',
          said.shape,
          " on ",
          said.device,
          ", and is ",
          array.dtype(),
          ' ',
          array.shape(),
          " on ",
          array.device());
    });
  }
}

}  // namespace

void check_program(const Graph& graph) {
  const autograd::ModeScope unrecorded(false, false);
  Tracer tracer;
  Arrays inputs;
  for (const ValueId input : graph.inputs)
    inputs.push_back(tracer.input(graph.values[input].spec));
  (void)tracer.trace([&] {
    return replay(graph, inputs, {.numbered = true, .after = [&](std::size_t at, const Arrays& results) {
                                    check_result(graph, at, results);
                                  }});
  });
}

ArraySpec NodeReader::spec_of(const JsonPlace& place) const {
  ArraySpec spec{place["shape"].shape(), place["dtype"].dtype(), device_};
  if (const std::optional<JsonPlace> device = place.find("device"))
    spec.device = device_of(*device);
  return spec;
}
Device NodeReader::device_of(const JsonPlace& place) const {
  const std::string text = place.text();
  if (text == file_format::k_here)
    return device_;
  try {
    return parse_device(text);
  } catch (const ValueError& error) {
    place.fail(error.message());
  } catch (const DeviceError& error) {
    throw DeviceError(message(name_, ": ", place.path(), ": ", error.message()));
  }
}

// Numbers go up by one: so nothing is made twice, and nothing can be used before it is made.
ValueId NodeReader::define(const JsonPlace& place, ArraySpec spec, Source source) {
  const auto id = static_cast<ValueId>(graph_.values.size() - shapes_);
  const JsonPlace number = place["value"];
  if (number.whole(0, INT32_MAX) != id)
    number.fail(message("is not ", id, ", the next number"));
  ids_.push_back(static_cast<ValueId>(graph_.values.size()));
  graph_.values.push_back({.source = source, .spec = spec, .root = ids_.back()});
  return ids_.back();
}
void NodeReader::add_input(const JsonPlace& place) {
  graph_.inputs.push_back(define(place, spec_of(place), Source::input));
}
ValueId NodeReader::known(const JsonPlace& place) const {
  const std::int64_t number = place.whole(0, INT32_MAX);
  if (number >= std::ssize(ids_))
    place.fail(message("names value ", number, ", which is not made before"));
  return ids_[static_cast<std::size_t>(number)];
}
ValueId NodeReader::operand(const JsonPlace& place) {
  if (!place.value().is_object())
    return known(place);
  const auto id = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({.source = Source::shape, .spec = spec_of(place), .root = id});
  ++shapes_;
  return id;
}

void NodeReader::add_node(const JsonPlace& place) {
  const std::string name = place["op"].text();
  Node node{.op = find_operator(name)};
  require<UnsupportedError>(node.op != nullptr, [&] {
    return message(
        name_,
        ": ",
        place.path(),
        ": this program has no operator '",
        name,
        "'; what a plugin or the program brings must be registered before");
  });
  node.attributes = attributes_of(*node.op, place["attributes"]);
  for (const JsonPlace& input : place["inputs"].entries())
    node.inputs.push_back(operand(input));
  if (node.op->inputs >= 0 ? node.inputs.size() > static_cast<std::size_t>(node.op->inputs) : false)
    place["inputs"].fail(message(name, " takes ", node.op->inputs));
  for (const JsonPlace& result : place["results"].entries()) {
    if (const std::optional<JsonPlace> into = result.find("into"))
      node.results.push_back({known(*into), false});
    else
      node.results.push_back({define(result, spec_of(result), Source::result), true});
  }
  check_view(place, node);
  if (const std::optional<JsonPlace> call = place.find("call"))
    node.site = site_of(*call);
  else
    node.site = {kept(name_), 0};
  graph_.nodes.push_back(std::move(node));
}

void NodeReader::check_view(const JsonPlace& place, const Node& node) {
  if (!node.is_view())
    return;
  if (node.inputs.empty() || node.results.size() != 1 || !node.results[0].made)
    place.fail("a view is of an input and makes one result");
  graph_.values[node.results[0].value].root = graph_.root(node.inputs[0]);
}

AttributeValue NodeReader::value_of(const JsonPlace& place) const {
  const boost::json::value& value = place.value();
  if (value.is_null())
    return {};
  if (value.is_bool())
    return value.get_bool();
  if (value.is_string())
    return place.text();
  if (value.is_array())
    return place.whole_numbers(INT64_MIN);
  if (!value.is_object())
    return place.whole(INT64_MIN, INT64_MAX);
  if (const auto real = place.find("real"))
    return real->real();
  if (const auto dtype = place.find("dtype"))
    return dtype->dtype();
  if (const auto device = place.find("device"))
    return device_of(*device);
  if (const auto nested = place.find("graph"))
    return nested_text(read_nested(*nested, name_, device_), {});
  std::vector<double> reals;
  for (const JsonPlace& entry : place["reals"].entries())
    reals.push_back(entry.real());
  return reals;
}

Attributes NodeReader::attributes_of(const Operator& op, const JsonPlace& place) const {
  if (place.value().is_null())
    return {};
  std::vector<NamedValue> values;
  for (const auto& [name, value] : place.fields())
    values.push_back({name, value_of(value)});
  try {
    return make_attributes(op, values);
  } catch (const UnsupportedError& error) {
    throw UnsupportedError(message(name_, ": ", place.path(), ": ", error.message()));
  } catch (const Error& error) {
    place.fail(error.message());
  }
}

SourceLocation NodeReader::site_of(const JsonPlace& place) const {
  const std::string layer = place["layer"].text(), file = place["file"].text();
  const std::string where = name_ + ": " + (layer.empty() ? "" : layer + " at ") + file;
  const auto line = static_cast<int>(place["line"].whole(0, INT32_MAX));
  return {kept(where), line};
}

Graph read_nested(const JsonPlace& place, const std::string& name, Device device) {
  Graph graph;
  NodeReader nodes(name, device, graph);
  for (const JsonPlace& input : place["inputs"].entries())
    nodes.add_input(input);
  for (const JsonPlace& node : place["nodes"].entries())
    nodes.add_node(node);
  for (const JsonPlace& output : place["outputs"].entries())
    graph.outputs.push_back(nodes.known(output));
  try {
    check_program(graph);
  } catch (const UnsupportedError& error) {
    throw UnsupportedError(message(name, ": ", place.path(), ": ", error.message()));
  } catch (const DeviceError& error) {
    throw DeviceError(message(name, ": ", place.path(), ": ", error.message()));
  } catch (const Error& error) {
    place.fail(error.message());
  }
  return graph;
}

}  // namespace sluice::graph
