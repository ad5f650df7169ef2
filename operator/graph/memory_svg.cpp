// What a graph needs of memory, as a picture.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/labels.h>
#include <sluice/operator/graph/detail/memory_use.h>
#include <sluice/operator/graph/detail/svg_writer.h>
#include <sluice/operator/graph/svg.h>

namespace sluice::graph {

namespace {

constexpr std::array<const char*, 8> k_colours = {
    "#8ecae6", "#ffd166", "#cdb4db", "#b5e48c", "#f4a261", "#a8dadc", "#e5989b", "#e9c46a"};
constexpr std::int64_t k_left = 110, k_top = 30, k_plot_height = 560, k_lowest = 4, k_line = 16;

/// A result in its memory, from its first node to its last one.
struct Held {
  ValueId value = 0;
  std::size_t bytes = 0, first = 0, last = 0;
};

/// A stretch of memory, and what lies there one after the other.
struct Row {
  std::size_t bytes = 0;
  Device device = cpu();
  bool shared = false;
  std::vector<Held> held = {};
};

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<const char*, 4> units = {" B", " KiB", " MiB", " GiB"};
  std::size_t unit = 0, tenths = bytes * 10;
  for (; tenths >= 10240 && unit + 1 < units.size(); ++unit)
    tenths /= 1024;
  const bool is_whole = unit == 0 || tenths % 10 == 0;
  return is_whole ? message(tenths / 10, units[unit]) : message(tenths / 10, '.', tenths % 10, units[unit]);
}

std::vector<Row> rows_of(const Graph& graph, const MemoryPlan& plan) {
  std::vector<std::size_t> last(graph.values.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const auto use = [&](ValueId root) { last[root] = at; };
    for_each_read(graph, graph.nodes[at], use);
    for_each_write(graph, graph.nodes[at], use);
  }
  for (const ValueId output : graph.outputs)
    last[graph.root(output)] = graph.nodes.size();  // kept
  std::vector<Row> rows;
  for (const MemoryPlan::Slot& slot : plan.slots)
    rows.push_back({.bytes = slot.bytes, .device = slot.device, .shared = true});
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    for (const auto [value, made] : graph.nodes[at].results) {
      if (!made || graph.nodes[at].is_view())
        continue;
      const ArraySpec& spec = graph.values[value].spec;
      const Held held{value, graph::bytes_of(spec), at, last[value]};
      if (const auto slot = plan.slot_of[value])
        rows[*slot].held.push_back(held);
      else
        rows.push_back({.bytes = held.bytes, .device = spec.device, .held = {held}});
    }
  }
  return rows;
}

/// Draws one graph's rows.
class Picture {
 public:
  Picture(const Graph& graph, const MemoryPlan& plan)
      : graph_(graph),
        plan_(plan),
        rows_(rows_of(graph, plan)),
        steps_(static_cast<std::int64_t>(graph.nodes.size())),
        step_(std::max<std::int64_t>(8, std::min<std::int64_t>(60, 1200 / std::max<std::int64_t>(steps_, 1)))),
        whole_(std::max<std::size_t>(bytes_of(plan), 1)),
        svg_(width(), height()) {}

  std::string draw() && {
    const std::size_t bytes = bytes_of(plan_), apart = plan_.bytes_without_sharing;
    svg_.text(
        8,
        18,
        message(
            bytes_text(bytes),
            " for the results of ",
            steps_,
            " nodes, ",
            plan_.slots.size(),
            " shared slots; without sharing ",
            bytes_text(apart)));
    axis();
    std::int64_t y = k_top;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      row(i, y);
      y += height_of(rows_[i]);
    }
    return std::move(svg_).finish();
  }

 private:
  std::int64_t width() const { return k_left + (steps_ + 1) * step_ + 20; }
  std::int64_t height() const { return bottom() + room_for_names() + 12; }
  std::int64_t room_for_names() const {
    std::size_t letters = 4;
    for (const Node& node : graph_.nodes)
      letters = std::max(letters, message(graph_.nodes.size(), ' ', node.op->name).size());
    return static_cast<std::int64_t>(letters) * SvgWriter::k_letter;
  }
  std::int64_t x_of(std::size_t at) const { return k_left + static_cast<std::int64_t>(at) * step_; }
  std::int64_t scaled(std::size_t bytes) const {
    return std::max(k_lowest, static_cast<std::int64_t>(bytes * static_cast<std::size_t>(k_plot_height) / whole_));
  }
  std::int64_t height_of(const Row& row) const { return scaled(row.bytes); }
  std::int64_t bottom() const {
    std::int64_t y = k_top;
    for (const Row& row : rows_)
      y += height_of(row);
    return y;
  }

  void axis() {
    const std::int64_t every = (k_line + step_ - 1) / step_;  // as many names as have room
    for (std::int64_t at = 0; at <= steps_; at += every) {
      const std::int64_t x = x_of(static_cast<std::size_t>(at));
      svg_.line(x, k_top, x, bottom());
      const std::string name =
          at < steps_ ? message(at, ' ', graph_.nodes[static_cast<std::size_t>(at)].op->name) : std::string("kept");
      svg_.upright_text(x + step_ / 2 + 4, bottom() + 6, name);
    }
  }

  void row(std::size_t number, std::int64_t y) {
    const Row& row = rows_[number];
    const std::int64_t high = height_of(row);
    if (high >= k_line)
      svg_.text(
          k_left - 8,
          y + high / 2 + 4,
          message(row.shared ? message("slot ", number, ", ") : "", bytes_text(row.bytes)),
          SvgWriter::Anchor::end);
    svg_.line(k_left, y, x_of(static_cast<std::size_t>(steps_) + 1), y);
    for (std::size_t i = 0; i < row.held.size(); ++i) {
      // A node that writes over its operand takes the place for the time of its own.
      const bool is_taken = i + 1 < row.held.size() && row.held[i + 1].first == row.held[i].last;
      value(row, row.held[i], y, row.held[i].last + (is_taken ? 0 : 1));
    }
  }

  void value(const Row& row, const Held& held, std::int64_t y, std::size_t end) {
    const std::int64_t x = x_of(held.first), wide = x_of(end) - x, high = std::min(scaled(held.bytes), height_of(row));
    const bool kept = held.last >= graph_.nodes.size();
    const std::string text = typed(graph_, held.value);
    svg_.box(
        {x, y, wide, high},
        row.shared ? k_colours[held.value % k_colours.size()] : "#e6e8eb",
        message(
            text,
            ", ",
            bytes_text(held.bytes),
            " on ",
            row.device,
            ": made by node ",
            held.first,
            " (",
            graph_.nodes[held.first].op->name,
            kept ? message("), kept") : message("), used last by node ", held.last)));
    if (high >= k_line && wide >= static_cast<std::int64_t>(text.size()) * SvgWriter::k_letter)
      svg_.text(x + 4, y + high / 2 + 4, text);
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  const std::vector<Row> rows_;
  const std::int64_t steps_, step_;
  const std::size_t whole_;
  SvgWriter svg_;
};

}  // namespace

std::string memory_to_svg(const Graph& graph, const MemoryPlan& plan) {
  return Picture(graph, plan).draw();
}

}  // namespace sluice::graph
