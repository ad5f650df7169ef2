#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include <boost/json/parse.hpp>
#include <boost/json/src.hpp>  // Boost.JSON as a part of this file: nothing more to link

#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/detail/json_place.h>
#include <sluice/operator/graph/detail/nested.h>
#include <sluice/operator/graph/detail/node_reader.h>
#include <sluice/operator/graph/file.h>

namespace sluice::graph {

namespace {

using namespace file_format;

class Reader {
 public:
  Reader(const std::string& name, const boost::json::value& root, Device device)
      : root_(name, root), nodes_(name, device, file_.graph) {}

  GraphFile read() {
    file_.parameter_checksum = read_checksum(root_["parameter_checksum"]);
    for (const auto& [key, note] : root_["notes"].fields())
      file_.notes.emplace(key, note.text());
    if (const auto layers = root_.find("layers"))
      read_layers(*layers);
    for (const JsonPlace& input : root_["inputs"].entries()) {
      file_.inputs.push_back({new_name(input["name"]), input["batch"].truth()});
      nodes_.add_input(input);
      if (file_.inputs.back().batch && file_.graph.values.back().spec.shape.empty())
        input["batch"].fail("is true of an array without axes");
    }
    for (const JsonPlace& parameter : root_["parameters"].entries()) {
      file_.parameters.push_back(parameter_of(parameter));
      nodes_.add_input(parameter);
    }
    for (const JsonPlace& node : root_["nodes"].entries())
      nodes_.add_node(node);
    names_.clear();
    for (const JsonPlace& output : root_["outputs"].entries()) {
      file_.outputs.push_back(new_name(output["name"]));
      file_.graph.outputs.push_back(nodes_.known(output["value"]));
    }
    return std::move(file_);
  }

 private:
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

  // Files had none before.
  void read_layers(const JsonPlace& place) {
    for (const JsonPlace& layer : place.entries()) {
      FileLayer made{layer["name"].text(), layer["type"].text(), {}};
      if (!names_.insert(made.name).second)
        layer["name"].fail("'" + made.name + "' is a name twice");
      for (const auto& [name, value] : layer["options"].fields()) {
        if (value.value().is_object() && value.find("graph"))
          value.fail("is a graph, which no layer has for an option");
        made.options.push_back({name, nodes_.value_of(value)});
      }
      file_.layers.push_back(std::move(made));
    }
    names_.clear();
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

  JsonPlace root_;
  GraphFile file_;
  NodeReader nodes_;
  std::set<std::string> names_;
};

// Some fifty bodies of branches within each other; the stack must hold as many readers.
constexpr std::size_t k_max_depth = 256;

std::string complaint(const boost::json::error_code& error) {
  if (error == boost::json::error::too_deep)
    return message("it nests values deeper than ", k_max_depth, " levels: bodies within bodies");
  if (error == boost::json::error::incomplete)
    return "is no graph file: it ends too early";
  return "is no graph file: it is not JSON: " + error.message();
}

boost::json::value parsed(std::string_view text, const std::string& name) {
  boost::json::error_code error;
  const boost::json::parse_options options{.max_depth = k_max_depth};
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  require<FileError>(!error, [&] { return message(name, ": ", complaint(error)); });
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

Graph from_nested_text(std::string_view text) {
  const std::string name = "the text of a graph";
  const boost::json::value value = parsed(text, name);
  return read_nested(JsonPlace(name, value), name, cpu());
}

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
