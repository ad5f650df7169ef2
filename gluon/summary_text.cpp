#include <algorithm>
#include <array>
#include <cstdint>
#include <ostream>

#include <sluice/engine/error.h>
#include <sluice/gluon/summary.h>

namespace sluice::gluon {

namespace {

using Cells = std::array<std::string, 5>;

// 203530 as "203,530".
std::string grouped(std::int64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

// Blank where there is nothing: a column of zeros hides what counts.
std::string unless_none(std::int64_t count) {
  return count == 0 ? "" : grouped(count);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 4> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return message(bytes, " bytes");
  std::size_t unit = 0;
  std::int64_t whole = bytes, rest = 0;
  for (; whole >= 1024 && (unit == 0 || unit < units.size()); ++unit) {
    rest = whole % 1024;
    whole /= 1024;
  }
  return message(whole, '.', rest * 10 / 1024, ' ', units[unit - 1]);
}

Cells cells_of(const LayerSummary& layer) {
  std::string shapes;
  for (const Shape& shape : layer.outputs)
    shapes += message(shapes.empty() ? "" : ", ", shape);
  const std::string parameters = unless_none(layer.parameters) + (layer.is_shared ? " (shared)" : "");
  const std::string name = layer.path.empty() ? "(network)" : layer.path;
  const std::string type = layer.options.empty() ? layer.type : layer.type + '(' + layer.options + ')';
  return {std::string(2 * layer.depth, ' ') + name, type, shapes, parameters, unless_none(layer.flops)};
}

void append_line(std::string& text, const Cells& cells, const std::array<std::size_t, 5>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - cells[i].size(), ' ');
    line += (i == 0 ? "" : "  ") + (i < 3 ? cells[i] + blanks : blanks + cells[i]);
  }
  text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
}

}  // namespace

std::string to_string(const Summary& summary) {
  std::vector<Cells> lines{{"layer", "type", "output", "parameters", "FLOPs"}};
  for (const LayerSummary& layer : summary.layers)
    lines.push_back(cells_of(layer));
  std::array<std::size_t, 5> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    append_line(text, lines[i], widths);
    if (i == 0)
      text += std::string(widths[0] + widths[1] + widths[2] + widths[3] + widths[4] + 8, '-') + '\n';
  }
  text += message(
      "\nparameters: ",
      grouped(summary.parameters()),
      " (",
      grouped(summary.trained_parameters),
      " trained, ",
      grouped(summary.other_parameters),
      " not), ",
      bytes_text(summary.parameter_bytes));
  text += message("\nFLOPs of a forward: ", grouped(summary.flops));
  text += message("\nresults of a forward: ", bytes_text(summary.result_bytes), " as a graph, ");
  return text + bytes_text(summary.result_bytes_without_sharing) + " without sharing memory\n";
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  return out << to_string(summary);
}

}  // namespace sluice::gluon
