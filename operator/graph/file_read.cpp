#include <algorithm>
#include <mutex>
#include <set>

#include <boost/json/parse.hpp>
#include <boost/json/src.hpp>  // Boost.JSON as a part of this file: nothing more to link

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/detail/json_place.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/graph/file.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::graph {

namespace {

using namespace file_format;

// Lives as long as the process: tasks keep where they were pushed.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto* const all = new std::set<std::string>;
  const std::lock_guard hold(mutex);
  return all->insert(text).first->c_str();
}

class Reader {
 public:
  Reader(const std::string& name, const boost::json::value& root, Device device)
      : name_(name), root_(name, root), device_(device) {}

  GraphFile read() {
    file_.parameter_checksum = read_checksum(root_["parameter_checksum"]);
    for (const auto& [key, note] : root_["notes"].fields())
      file_.notes.emplace(key, note.text());
    for (const JsonPlace& input : root_["inputs"].entries()) {
      file_.inputs.push_back({new_name(input["name"]), input["batch"].truth()});
      add_input(input);
      if (file_.inputs.back().batch && graph().values.back().spec.shape.empty())
        input["batch"].fail("is true of an array without axes");
    }
    for (const JsonPlace& parameter : root_["parameters"].entries()) {
      file_.parameters.push_back(parameter_of(parameter));
      add_input(parameter);
    }
    for (const JsonPlace& node : root_["nodes"].entries())
      add_node(node);
    names_.clear();
    for (const JsonPlace& output : root_["outputs"].entries()) {
      file_.outputs.push_back(new_name(output["name"]));
      graph().outputs.push_back(known(output["value"]));
    }
    return std::move(file_);
  }

 private:
  Graph& graph() { return file_.graph; }

  static std::uint32_t read_checksum(const JsonPlace& place) {
    const std::string digits = place.text();
    std::uint32_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 8 || end.ptr != digits.data() + 8)
      place.fail("is no checksum of eight hexadecimal digits");
    return value;
  }

  std::string new_name(const JsonPlace& place) {
    std::string name = place.text();
    if (name.empty() || !names_.insert(name).second)
      place.fail(name.empty() ? "is empty" : "'" + name + "' is a name twice");
    return name;
  }

  FileParameter parameter_of(const JsonPlace& place) {
    const JsonPlace req = place["grad_req"];
    const auto* const found = std::find(std::begin(k_grad_reqs), std::end(k_grad_reqs), req.text());
    if (found == std::end(k_grad_reqs))
      req.fail("is none of null, write and add");
    const auto factor = [](const JsonPlace& from) {
      const double value = from.real();
      if (!(value >= 0 && value <= std::numeric_limits<double>::max()))
        from.fail("must be finite and not negative");
      return value;
    };
    FileParameter made{
        new_name(place["name"]),
        static_cast<GradReq>(found - std::begin(k_grad_reqs)),
        factor(place["lr_mult"]),
        factor(place["wd_mult"])};
    if (made.grad_req != GradReq::null && !is_floating(place["dtype"].dtype()))
      req.fail("says that an array of whole numbers is trained");
    return made;
  }

  ArraySpec spec_of(const JsonPlace& place) const {
    ArraySpec spec{place["shape"].shape(), place["dtype"].dtype(), device_};
    if (const std::optional<JsonPlace> device = place.find("device"))
      spec.device = device_of(*device);
    return spec;
  }
  Device device_of(const JsonPlace& place) const {
    const std::string text = place.text();
    if (text == k_here)
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
  ValueId define(const JsonPlace& place, ArraySpec spec, Source source) {
    const auto id = static_cast<ValueId>(graph().values.size() - shapes_);
    const JsonPlace number = place["value"];
    if (number.whole(0, INT32_MAX) != id)
      number.fail(message("is not ", id, ", the next number"));
    ids_.push_back(static_cast<ValueId>(graph().values.size()));
    graph().values.push_back({.source = source, .spec = spec, .root = ids_.back()});
    return ids_.back();
  }
  void add_input(const JsonPlace& place) { graph().inputs.push_back(define(place, spec_of(place), Source::input)); }
  ValueId known(const JsonPlace& place) const {
    const std::int64_t number = place.whole(0, INT32_MAX);
    if (number >= std::ssize(ids_))
      place.fail(message("names value ", number, ", which is not made before"));
    return ids_[static_cast<std::size_t>(number)];
  }
  ValueId operand(const JsonPlace& place) {
    if (!place.value().is_object())
      return known(place);
    const auto id = static_cast<ValueId>(graph().values.size());
    graph().values.push_back({.source = Source::shape, .spec = spec_of(place), .root = id});
    ++shapes_;
    return id;
  }

  void add_node(const JsonPlace& place) {
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
    node.site = site_of(place["call"]);
    graph().nodes.push_back(std::move(node));
  }

  void check_view(const JsonPlace& place, const Node& node) {
    if (!node.is_view())
      return;
    if (node.inputs.empty() || node.results.size() != 1 || !node.results[0].made)
      place.fail("a view is of an input and makes one result");
    graph().values[node.results[0].value].root = graph().root(node.inputs[0]);
  }

  AttributeValue value_of(const JsonPlace& place) const {
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
    std::vector<double> reals;
    for (const JsonPlace& entry : place["reals"].entries())
      reals.push_back(entry.real());
    return reals;
  }

  Attributes attributes_of(const Operator& op, const JsonPlace& place) const {
    if (place.value().is_null())
      return {};
    std::vector<NamedValue> values;
    for (const auto& [name, value] : place.fields())
      values.push_back({name, value_of(value)});
    try {
      return make_attributes(op, values);
    } catch (const ValueError& error) {
      place.fail(error.message());
    }
  }

  SourceLocation site_of(const JsonPlace& place) const {
    const std::string layer = place["layer"].text(), file = place["file"].text();
    const std::string where = name_ + ": " + (layer.empty() ? "" : layer + " at ") + file;
    const auto line = static_cast<int>(place["line"].whole(0, INT32_MAX));
    return {kept(where), line};
  }

  const std::string& name_;
  JsonPlace root_;
  Device device_;
  GraphFile file_;
  std::set<std::string> names_;
  std::vector<ValueId> ids_;  // of the file's numbers
  std::size_t shapes_ = 0;    // values that have no number
};

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

boost::json::value parsed(std::string_view text, const std::string& name) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error);
  require<FileError>(!error, [&] {
    const bool is_cut = error == boost::json::error::incomplete;
    return message(name, ": is no graph file: ", is_cut ? "it ends too early" : "it is not JSON: " + error.message());
  });
  return value;
}

void check_whole(const JsonPlace& root, std::string_view text) {
  if (!root.value().is_object() || !root.find("format") || root["format"].text() != k_format)
    root.fail(message("is no graph file: it does not say \"format\": \"", k_format, '"'));
  const std::int64_t version = root["version"].whole(1, INT64_MAX);
  if (version > k_file_version)
    root.fail(message("is of version ", version, "; this program reads versions up to ", k_file_version));
  std::uint32_t sum = 0;
  try {
    sum = text_checksum(text);
  } catch (const ValueError& error) {
    root.fail(error.message());
  }
  if (root["checksum"].text() != checksum_text(sum))
    root.fail(message(
        "is damaged, or was changed by hand: it says checksum ",
        root["checksum"].text(),
        ", it has ",
        checksum_text(sum)));
}

}  // namespace

GraphFile from_json(std::string_view text, const std::string& name, Device device) {
  const boost::json::value value = parsed(text, name);
  check_whole(JsonPlace(name, value), text);
  GraphFile file = Reader(name, value, device).read();
  const auto named = [&](const Error& error) { return message(name, ": ", error.message()); };
  try {
    check_program(file.graph);
  } catch (const DeviceError& error) {
    throw DeviceError(named(error));
  } catch (const UnsupportedError& error) {
    throw UnsupportedError(named(error));
  } catch (const Error& error) {
    throw FileError(named(error));
  }
  return file;
}

}  // namespace sluice::graph
