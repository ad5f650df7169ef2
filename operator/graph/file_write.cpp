#include <algorithm>

#include <zlib.h>

#include <sluice/operator/control/subgraph.h>
#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/detail/json_text.h>
#include <sluice/operator/graph/detail/node_text.h>
#include <sluice/operator/graph/file.h>

namespace sluice::graph {

namespace {

using namespace file_format;

// Lines of a list, one an entry.
template <class List, class Each>
std::string lines(const List& list, const Each& each) {
  return list.empty() ? "[]" : "[\n  " + listed(list, ",\n  ", each) + "\n ]";
}

Device here_of(const Graph& graph) {
  return graph.inputs.empty() ? cpu() : graph.values[graph.inputs[0]].spec.device;
}

int version_of(const Graph& graph) {
  const bool has_graphs = std::any_of(
      graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return !control::subgraphs_of(node).empty(); });
  return has_graphs ? k_file_version : 1;
}

class Writer {
 public:
  explicit Writer(const GraphFile& file) : file_(file), graph_(file.graph), text_(file.graph, here_of(file.graph)) {
    const std::size_t taken = file.inputs.size() + file.parameters.size();
    require<ValueError>(taken == graph_.inputs.size() && file.outputs.size() == graph_.outputs.size(), [&] {
      return message(
          "graph file: ",
          taken,
          " names of inputs and parameters for ",
          graph_.inputs.size(),
          " inputs, ",
          file.outputs.size(),
          " of outputs for ",
          graph_.outputs.size());
    });
  }

  std::string write() {
    std::size_t at = 0;
    std::string text =
        std::string(k_head) + std::to_string(version_of(graph_)) + std::string(k_checksum) + "00000000\"";
    text += ",\n \"parameter_checksum\": " + in_quotes(checksum_text(file_.parameter_checksum));
    text += ",\n \"notes\": {" + listed(file_.notes, ", ", [](const auto& note) {
              return in_quotes(note.first) + ": " + in_quotes(note.second);
            });
    text += '}';
    if (!file_.layers.empty())
      text += ",\n \"layers\": " + lines(file_.layers, [&](const FileLayer& layer) { return line_of(layer); });
    text += ",\n \"inputs\": " + lines(file_.inputs, [&](const FileInput& input) { return line_of(input, at++); });
    text += ",\n \"parameters\": " +
            lines(file_.parameters, [&](const FileParameter& parameter) { return line_of(parameter, at++); });
    text += ",\n \"nodes\": " + lines(graph_.nodes, [&](const Node& node) { return text_.line_of(node); });
    at = 0;
    text += ",\n \"outputs\": " + lines(file_.outputs, [&](const std::string& name) {
              return "{\"name\": " + in_quotes(name) + ", \"value\": " + text_.numbered(graph_.outputs[at++]) + '}';
            });
    text += "\n}\n";
    text.replace(text.find("00000000"), 8, checksum_text(text_checksum(text)));
    return text;
  }

 private:
  std::string line_of(const FileLayer& layer) const {
    const auto field = [&](const NamedValue& option) {
      return in_quotes(option.name) + ": " + value_text(option.value, here_of(graph_));
    };
    return "{\"name\": " + in_quotes(layer.name) + ", \"type\": " + in_quotes(layer.type) + ", \"options\": {" +
           listed(layer.options, ", ", field) + "}}";
  }
  std::string line_of(const FileInput& input, std::size_t at) {
    return "{\"name\": " + in_quotes(input.name) + ", " + text_.define(graph_.inputs[at]) +
           ", \"batch\": " + (input.batch ? "true}" : "false}");
  }
  std::string line_of(const FileParameter& parameter, std::size_t at) {
    return "{\"name\": " + in_quotes(parameter.name) + ", " + text_.define(graph_.inputs[at]) +
           ", \"grad_req\": " + in_quotes(k_grad_reqs[static_cast<int>(parameter.grad_req)]) +
           ", \"lr_mult\": " + in_quotes(number(parameter.lr_mult)) +
           ", \"wd_mult\": " + in_quotes(number(parameter.wd_mult)) + '}';
  }

  const GraphFile& file_;
  const Graph& graph_;
  NodeText text_;
};

}  // namespace

std::uint32_t checksum(std::string_view bytes, std::uint32_t before) noexcept {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string checksum_text(std::uint32_t checksum) {
  std::string text(8, '0');
  for (int i = 7; i >= 0; --i, checksum >>= 4)
    text[static_cast<std::size_t>(i)] = "0123456789abcdef"[checksum & 15];
  return text;
}

std::uint32_t text_checksum(std::string_view text) {
  std::size_t at = k_head.size();
  while (at < text.size() && text[at] >= '0' && text[at] <= '9')
    ++at;
  require<ValueError>(
      text.starts_with(k_head) && text.substr(at).starts_with(k_checksum) && text.size() > at + k_checksum.size() + 8,
      [] { return "a graph file begins with its format, version and checksum, a line each"; });
  at += k_checksum.size();
  return checksum(text.substr(at + 8), checksum("00000000", checksum(text.substr(0, at))));
}

std::string to_json(const GraphFile& file) {
  std::string text = Writer(file).write();
  try {
    (void)from_json(text, "graph file", here_of(file.graph));
  } catch (const FileError& error) {  // there is no file yet: the graph is what is wrong
    throw ValueError(error.message());
  } catch (const UnsupportedError& error) {
    throw ValueError(error.message());
  }
  return text;
}

}  // namespace sluice::graph
