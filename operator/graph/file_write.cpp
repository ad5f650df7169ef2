#include <array>
#include <charconv>
#include <cstring>

#include <zlib.h>

#include <sluice/engine/origin.h>
#include <sluice/operator/graph/detail/file_format.h>
#include <sluice/operator/graph/file.h>

namespace sluice::graph {

namespace {

using namespace file_format;

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* k_digits = "0123456789abcdef";
      made += {'\\', 'u', '0', '0', k_digits[c >> 4], k_digits[c & 15]};
      continue;
    }
    if (c == '"' || c == '\\')
      made += '\\';
    made += c;
  }
  return made + '"';
}

// The fewest digits that read as the same number; as text, which holds infinities and which all readers read exactly.
std::string number(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

template <class List, class Each>
std::string listed(const List& list, const char* separator, const Each& each) {
  std::string text;
  for (const auto& entry : list)
    text += (text.empty() ? "" : separator) + each(entry);
  return text;
}

std::string whole_numbers(const auto& list) {
  return '[' + listed(list, ", ", [](std::int64_t entry) { return std::to_string(entry); }) + ']';
}

// Lines of a list, one an entry.
template <class List, class Each>
std::string lines(const List& list, const Each& each) {
  return list.empty() ? "[]" : "[\n  " + listed(list, ",\n  ", each) + "\n ]";
}

struct AttributeText {
  Device here;

  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(double value) const { return "{\"real\": " + quoted(number(value)) + '}'; }
  std::string operator()(DType value) const { return "{\"dtype\": " + quoted(name_of(value)) + '}'; }
  std::string operator()(Device value) const {
    return "{\"device\": " + quoted(value == here ? std::string(k_here) : to_string(value)) + '}';
  }
  std::string operator()(const std::vector<std::int64_t>& list) const { return whole_numbers(list); }
  std::string operator()(const std::vector<double>& list) const {
    return "{\"reals\": [" + listed(list, ", ", [](double entry) { return quoted(number(entry)); }) + "]}";
  }
};

class Writer {
 public:
  explicit Writer(const GraphFile& file) : file_(file), graph_(file.graph), numbers_(graph_.values.size(), k_none) {
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
    here_ = graph_.inputs.empty() ? cpu() : graph_.values[graph_.inputs[0]].spec.device;
  }

  std::string write() {
    std::size_t at = 0;
    std::string text = std::string(k_head) + std::to_string(k_file_version) + std::string(k_checksum) + "00000000\"";
    text += ",\n \"parameter_checksum\": " + quoted(checksum_text(file_.parameter_checksum));
    text += ",\n \"notes\": {" +
            listed(file_.notes, ", ", [](const auto& note) { return quoted(note.first) + ": " + quoted(note.second); });
    text += "},\n \"inputs\": " + lines(file_.inputs, [&](const FileInput& input) { return line_of(input, at++); });
    text += ",\n \"parameters\": " +
            lines(file_.parameters, [&](const FileParameter& parameter) { return line_of(parameter, at++); });
    text += ",\n \"nodes\": " + lines(graph_.nodes, [&](const Node& node) { return line_of(node); });
    at = 0;
    text += ",\n \"outputs\": " + lines(file_.outputs, [&](const std::string& name) {
              return "{\"name\": " + quoted(name) + ", \"value\": " + numbered(graph_.outputs[at++]) + '}';
            });
    text += "\n}\n";
    text.replace(text.find("00000000"), 8, checksum_text(text_checksum(text)));
    return text;
  }

 private:
  static constexpr ValueId k_none = ~ValueId{0};

  // In a file values are numbered as they are made.
  std::string define(ValueId id) {
    numbers_[id] = next_++;
    const ArraySpec& spec = graph_.values[id].spec;
    std::string text = "\"value\": " + std::to_string(numbers_[id]) + ", \"shape\": " + whole_numbers(spec.shape) +
                       ", \"dtype\": " + quoted(name_of(spec.dtype));
    return spec.device == here_ ? text : text + ", \"device\": " + quoted(to_string(spec.device));
  }
  std::string numbered(ValueId id) const {
    require<ValueError>(numbers_[id] != k_none, [&] {
      return message("graph file: value ", id, " is used and not made; constants must be inputs");
    });
    return std::to_string(numbers_[id]);
  }

  std::string line_of(const FileInput& input, std::size_t at) {
    return "{\"name\": " + quoted(input.name) + ", " + define(graph_.inputs[at]) +
           ", \"batch\": " + (input.batch ? "true}" : "false}");
  }
  std::string line_of(const FileParameter& parameter, std::size_t at) {
    return "{\"name\": " + quoted(parameter.name) + ", " + define(graph_.inputs[at]) +
           ", \"grad_req\": " + quoted(k_grad_reqs[static_cast<int>(parameter.grad_req)]) +
           ", \"lr_mult\": " + quoted(number(parameter.lr_mult)) +
           ", \"wd_mult\": " + quoted(number(parameter.wd_mult)) + '}';
  }

  // Of an input that only gives its shape, that; random numbers are drawn by whoever runs the graph.
  std::string operands(const Node& node) const {
    std::string text;
    for (const ValueId id : node.inputs) {
      const Value& value = graph_.values[id];
      if (value.source == Source::random)
        continue;
      text += text.empty() ? "" : ", ";
      if (value.source == Source::shape)
        text += "{\"shape\": " + whole_numbers(value.spec.shape) + ", \"dtype\": " + quoted(name_of(value.spec.dtype)) +
                '}';
      else
        text += numbered(id);
    }
    return '[' + text + ']';
  }

  std::string attributes(const Node& node) const {
    if (node.attributes.empty())
      return "null";
    return '{' +
           listed(
               node.attributes.values(),
               ", ",
               [&](const NamedValue& field) {
                 return quoted(field.name) + ": " + std::visit(AttributeText{here_}, field.value);
               }) +
           '}';
  }

  static std::string call(SourceLocation site) {
    const Origin* const origin = Origin::of(site);
    const char* const slash = std::strrchr(site.file, '/');  // folders are the writer's own affair
    return "{\"layer\": " + quoted(origin == nullptr ? "" : origin->what()) +
           ", \"file\": " + quoted(slash == nullptr ? site.file : slash + 1) +
           ", \"line\": " + std::to_string(site.line) + '}';
  }

  std::string line_of(const Node& node) {
    require<ValueError>(find_operator(node.op->name) == node.op, [&] {
      return message(
          "graph file: no reader could find the operator '", node.op->name, "'; register_operator() makes it known");
    });
    std::string text = "{\"op\": " + quoted(node.op->name) + ", \"inputs\": " + operands(node);
    text += ", \"attributes\": " + attributes(node) + ", \"results\": [";
    text += listed(node.results, ", ", [&](const Result& result) {
      return '{' + (result.made ? define(result.value) : "\"into\": " + numbered(result.value)) + '}';
    });
    return text + "], \"call\": " + call(node.site) + '}';
  }

  const GraphFile& file_;
  const Graph& graph_;
  Device here_;
  std::vector<ValueId> numbers_;
  ValueId next_ = 0;
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
  (void)from_json(
      text, "graph file", file.graph.inputs.empty() ? cpu() : file.graph.values[file.graph.inputs[0]].spec.device);
  return text;
}

}  // namespace sluice::graph
