#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <boost/json/parse.hpp>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/formats/mxnet_symbol.h>
#include <sluice/gluon/formats/symbol_node.h>

namespace sluice::gluon::formats {

namespace {

namespace json = boost::json;

/// A result of a node.
struct Entry {
  std::size_t node, output;
};

struct Node {
  std::string name, type;
  SymbolAttributes attributes = {};
  std::vector<Entry> inputs = {};
  const SymbolOperator* op = nullptr;  // null: an array
};

/// Attributes that say how MXNet is to compute, not what.
bool is_hint(std::string_view key) {
  constexpr std::string_view hints[] = {
      "workspace", "cudnn_off", "cudnn_tune", "cudnn_algo_verbose", "cudnn_tensor_core", "num_args"};
  return key.starts_with("__") || key.starts_with("mirror") || key.starts_with("force_mirroring") ||
         key == "ctx_group" || std::find(std::begin(hints), std::end(hints), key) != std::end(hints);
}

class SymbolReader {
 public:
  explicit SymbolReader(const std::filesystem::path& path) : file_(path.string()) {
    std::ifstream stream(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    require<FileError>(stream.good() || stream.eof(), [&] { return message(file_, ": cannot be read"); });
    json::error_code error;
    root_ = json::parse(text, error);
    if (error || !root_.is_object())
      fail(message("is no symbol of MXNet's", error ? ": " + error.message() : ""));
  }

  std::vector<Node> nodes() const {
    std::vector<Node> found;
    for (const json::value& each : list(root_, "nodes"))
      found.push_back(node(each, found.size()));
    return found;
  }
  std::vector<Entry> heads(const std::vector<Node>& nodes) const {
    std::vector<Entry> found;
    for (const json::value& each : list(root_, "heads"))
      found.push_back(entry(each, nodes.size(), "a head"));
    if (found.empty())
      fail("has no heads");
    return found;
  }
  [[noreturn]] void fail(const std::string& what) const { throw FileError(message(file_, ": ", what)); }

 private:
  const json::array& list(const json::value& of, const char* key) const {
    const json::object* const object = of.if_object();
    const json::value* const found = object == nullptr ? nullptr : object->if_contains(key);
    if (found == nullptr || !found->is_array())
      fail(message("has no list of ", key));
    return found->get_array();
  }

  std::string text(const json::value& of, const char* key, std::size_t number) const {
    const json::object* const object = of.if_object();
    const json::value* const found = object == nullptr ? nullptr : object->if_contains(key);
    if (found == nullptr || !found->is_string())
      fail(message("node ", number, " has no ", key));
    return {found->get_string().data(), found->get_string().size()};
  }

  /// [node, output] or [node, output, version], of a node before.
  Entry entry(const json::value& value, std::size_t nodes, const std::string& of) const {
    const json::array* const numbers = value.if_array();
    if (numbers == nullptr || numbers->size() < 2 || !(*numbers)[0].is_int64() || !(*numbers)[1].is_int64())
      fail(message(of, " names no result of a node"));
    const std::int64_t node = (*numbers)[0].get_int64(), output = (*numbers)[1].get_int64();
    if (node < 0 || static_cast<std::size_t>(node) >= nodes || output < 0)
      fail(message(of, " names result ", output, " of node ", node, ", which is none before it"));
    return {static_cast<std::size_t>(node), static_cast<std::size_t>(output)};
  }

  Node node(const json::value& value, std::size_t number) const {
    Node made{text(value, "name", number), text(value, "op", number)};
    std::map<std::string, std::string> texts;
    for (const char* const key : {"param", "attr", "attrs"}) {  // older files have the first two
      const json::value* const found = value.get_object().if_contains(key);
      if (found == nullptr || !found->is_object())
        continue;
      for (const auto& [name, field] : found->get_object()) {
        if (!field.is_string())
          fail(message("node \"", made.name, "\" has an attribute that is no text"));
        texts[{name.data(), name.size()}] = {field.get_string().data(), field.get_string().size()};
      }
    }
    made.attributes = {made.name, std::move(texts)};
    for (const json::value& input : list(value, "inputs"))
      made.inputs.push_back(entry(input, number, message("node \"", made.name, "\"")));
    if (made.type != "null")
      made.op = &known(made);
    else if (!made.inputs.empty())
      fail(message("node \"", made.name, "\" is an array and has inputs"));
    return made;
  }

  const SymbolOperator& known(const Node& node) const {
    const auto found = symbol_operators().find(node.type);
    require<UnsupportedError>(found != symbol_operators().end(), [&] {
      return message(file_, ": node \"", node.name, "\": MXNet's operator ", node.type, " has no counterpart here");
    });
    const SymbolOperator& op = found->second;
    if (node.inputs.size() < op.least_inputs)
      fail(message(
          "node \"", node.name, "\": ", node.type, " takes ", op.least_inputs, " arrays, it has ", node.inputs.size()));
    for (const auto& [key, value] : node.attributes.texts()) {
      if (is_hint(key) || value == "None")
        continue;
      const auto only = op.only.find(key);
      const bool fits = only == op.only.end()
                            ? std::find(op.attributes.begin(), op.attributes.end(), key) != op.attributes.end()
                            : std::find(only->second.begin(), only->second.end(), value) != only->second.end();
      require<UnsupportedError>(fits, [&, &key = key, &value = value] {
        return message(
            file_, ": node \"", node.name, "\": ", node.type, " with ", key, " = ", value, " has no counterpart here");
      });
    }
    check(op, node);
    return op;
  }

  void check(const SymbolOperator& op, const Node& node) const {
    try {
      node.attributes.check();
      for (const char* const key : op.required) {
        if (node.attributes.find(key) == nullptr)
          node.attributes.find_damaged(message(node.type, " does not say ", key));
      }
      if (op.check != nullptr)
        op.check(node.attributes, node.inputs.size());
    } catch (const FileError& error) {
      fail(error.what());
    } catch (const UnsupportedError& error) {
      throw UnsupportedError(message(file_, ": ", error.what()));
    }
  }

  std::string file_;
  json::value root_;
};

}  // namespace

struct MxnetSymbol::Program {
  std::string file = {};
  std::vector<Node> nodes = {};
  std::vector<Entry> heads = {};
  std::vector<std::size_t> inputs = {};           // nodes
  std::vector<const Parameter*> parameters = {};  // by node; null: none
  // By node: those whose results nobody needs behind it, so that their memory serves others.
  std::vector<std::vector<std::size_t>> over = {};
};

MxnetSymbol::MxnetSymbol(std::unique_ptr<Program> program) : program_(std::move(program)) {}
MxnetSymbol::MxnetSymbol(MxnetSymbol&&) noexcept = default;
MxnetSymbol::~MxnetSymbol() = default;

std::vector<std::string> MxnetSymbol::known_operators() {
  std::vector<std::string> names;
  for (const auto& [name, op] : symbol_operators())
    names.emplace_back(name);
  return names;
}

namespace {

/// Nodes that are labels alone: predictions do without.
std::set<std::size_t> labels_of(const std::vector<Node>& nodes) {
  std::set<std::size_t> labels, others;
  for (const Node& node : nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      (node.op != nullptr && node.op->label == i ? labels : others).insert(node.inputs[i].node);
  }
  std::set<std::size_t> alone;
  std::set_difference(labels.begin(), labels.end(), others.begin(), others.end(), std::inserter(alone, alone.end()));
  return alone;
}

std::vector<std::vector<std::size_t>> over_after(const std::vector<Node>& nodes, const std::vector<Entry>& heads) {
  std::vector<std::size_t> last(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    last[i] = i;
    for (const Entry& input : nodes[i].inputs)
      last[input.node] = i;
  }
  std::vector<std::vector<std::size_t>> over(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (std::none_of(heads.begin(), heads.end(), [&](const Entry& head) { return head.node == i; }))
      over[last[i]].push_back(i);
  }
  return over;
}

std::set<std::size_t> statistics_of(const std::vector<Node>& nodes) {
  std::set<std::size_t> found;
  for (const Node& node : nodes) {
    for (std::size_t i = 0; node.op != nullptr && i < node.inputs.size(); ++i) {
      if (std::find(node.op->statistics.begin(), node.op->statistics.end(), i) != node.op->statistics.end())
        found.insert(node.inputs[i].node);
    }
  }
  return found;
}

}  // namespace

MxnetSymbol MxnetSymbol::imports(
    const std::filesystem::path& symbol,
    const std::vector<std::string>& inputs,
    const std::filesystem::path& parameters,
    Device device,
    SourceLocation site) {
  return detail::called("import of " + symbol.string(), site, [&] {
    const SymbolReader reader(symbol);
    auto program = std::make_unique<Program>();
    program->file = symbol.string();
    program->nodes = reader.nodes();
    program->heads = reader.heads(program->nodes);
    program->over = over_after(program->nodes, program->heads);
    std::map<std::string, NDArray> arrays;
    if (!parameters.empty()) {
      for (auto& [name, array] : load_any(parameters, device))
        arrays.emplace(name, array);
    }
    const std::set<std::size_t> labels = labels_of(program->nodes), statistics = statistics_of(program->nodes);
    std::map<std::string, std::size_t> places;
    MxnetSymbol made(std::move(program));
    Program& whole = *made.program_;
    whole.parameters.resize(whole.nodes.size());
    for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
      const Node& node = whole.nodes[i];
      if (node.op != nullptr)
        continue;
      if (std::find(inputs.begin(), inputs.end(), node.name) != inputs.end()) {
        places.emplace(node.name, i);
      } else if (const auto value = arrays.find(node.name); value != arrays.end()) {
        Parameter& parameter = made.parameter(
            node.name,
            {.shape = value->second.shape(),
             .dtype = value->second.dtype(),
             .grad_req =
                 statistics.contains(i) || !is_floating(value->second.dtype()) ? GradReq::null : GradReq::write});
        parameter.set_data(value->second);
        whole.parameters[i] = &parameter;
      } else if (!labels.contains(i)) {
        reader.fail(message("\"", node.name, "\" is no input, and ", parameters.string(), " has no value for it"));
      }
    }
    for (const std::string& name : inputs) {
      const auto place = places.find(name);
      require(
          place != places.end(), [&] { return message(symbol.string(), ": has no array \"", name, "\" to be given"); });
      whole.inputs.push_back(place->second);
    }
    return made;
  });
}

Arrays MxnetSymbol::forward_all(std::span<const NDArray> inputs) const {
  const Program& program = *program_;
  require_inputs(inputs, program.inputs.size());
  const OriginScope here(call_site());
  std::vector<Arrays> results(program.nodes.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    results[program.inputs[i]] = {inputs[i]};
  const auto result = [&](const Entry& entry) {
    const Arrays& of = results[entry.node];
    require<FileError>(entry.output < of.size(), [&] {
      return message(
          program.file,
          ": node \"",
          program.nodes[entry.node].name,
          "\" has no result ",
          entry.output,
          " that could be used");
    });
    return of[entry.output];
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (program.parameters[i] != nullptr)
      results[i] = {program.parameters[i]->data()};
    if (node.op == nullptr)
      continue;
    std::vector<NDArray> taken;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      taken.push_back(node.op->label == k ? NDArray() : result(node.inputs[k]));
    results[i] = node.op->call(node.attributes, taken);
    for (const std::size_t each : program.over[i])
      results[each].clear();
  }
  Arrays found;
  for (const Entry& head : program.heads)
    found.push_back(result(head));
  return found;
}

}  // namespace sluice::gluon::formats
