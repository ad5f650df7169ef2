// A graph as a picture: layers by depth, nodes of one layer side by side.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/origin.h>
#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/graph/detail/labels.h>
#include <sluice/operator/graph/detail/svg_writer.h>
#include <sluice/operator/graph/svg.h>

namespace sluice::graph {

namespace {

constexpr std::int64_t k_row = 84, k_high = 40, k_gap = 18, k_margin = 20;
constexpr std::size_t k_most_constants = 4;  // of one node, an oval each

/// A box or an oval of the picture.
struct Item {
  std::string name = {}, shape = {}, title = {};
  bool is_node = false;
  std::size_t depth = 0;
  std::int64_t x = 0, width = 0;  // x: of its middle
};

struct Edge {
  std::size_t from = 0, to = 0;  // items
  bool writes = false;
};

/// What is drawn, before it has places.
class Scene {
 public:
  explicit Scene(const Graph& graph)
      : graph_(graph),
        made_by_(graph.values.size()),
        written_by_(graph.values.size()),
        oval_(graph.values.size()),
        readers_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (const ValueId value : node.inputs)
        ++readers_[value];
    }
    for (const ValueId input : graph.inputs)
      add_oval(input, "input ");
    for (const Node& node : graph.nodes)
      add(node);
    for (const ValueId output : graph.outputs) {
      const std::size_t oval = add_item({.name = "result", .shape = typed(graph, output)});
      read(output, oval);
    }
    lower_constants();
  }

  std::vector<Item> items = {};
  std::vector<Edge> edges = {};

 private:
  std::size_t add_item(Item item) {
    const std::size_t letters = std::max(item.name.size(), item.shape.size());
    item.width = static_cast<std::int64_t>(letters) * SvgWriter::k_letter + 16;
    items.push_back(std::move(item));
    return items.size() - 1;
  }

  std::size_t add_oval(ValueId value, const char* what) {
    oval_[value] = add_item({.name = message(what, name_of(graph_, value)), .shape = typed(graph_, value)});
    return *oval_[value];
  }

  void add_edge(std::size_t from, std::size_t to, bool writes) {
    items[to].depth = std::max(items[to].depth, items[from].depth + 1);
    const auto same = [&](const Edge& edge) { return edge.from == from && edge.to == to; };
    if (const auto known = std::find_if(edges.begin(), edges.end(), same); known != edges.end())
      known->writes = known->writes || writes;
    else
      edges.push_back({from, to, writes});
  }

  // From who made it, and from who wrote its memory since.
  void read(ValueId value, std::size_t reader, bool writes = false) {
    const Source source = graph_.values[value].source;
    if (source == Source::shape || source == Source::random)
      return;
    const auto writer = written_by_[graph_.root(value)], maker = made_by_[value];
    if (writer)
      add_edge(*writer, reader, writes);
    if (maker)
      add_edge(*maker, reader, writes);
    else if (oval_[value])
      add_edge(*oval_[value], reader, writes);
    else if (!writer)
      add_edge(add_oval(value, "constant "), reader, writes);
  }

  // An update reads dozens of them: those that nobody else reads are one oval then.
  void join_constants(const Node& node) {
    std::vector<ValueId> alone;
    std::string names;
    for (const ValueId value : node.inputs) {
      const bool is_new = !oval_[value] && !written_by_[graph_.root(value)];
      if (graph_.values[value].source == Source::constant && readers_[value] == 1 && is_new) {
        alone.push_back(value);
        names += (names.empty() ? "" : "; ") + typed(graph_, value);
      }
    }
    if (alone.size() <= k_most_constants)
      return;
    const std::size_t oval = add_item({.name = message(alone.size(), " constants"), .title = names});
    for (const ValueId value : alone)
      oval_[value] = oval;
  }

  void add(const Node& node) {
    std::string made;
    for (const Result& result : node.results)
      made += (made.empty() ? "" : ", ") + (result.made ? "" : std::string("into ")) + typed(graph_, result.value);
    const std::size_t item = add_item(
        {.name = node.op == &fused::k_fused || node.op == &fused::k_fused_reduction ? label_of(node) : node.op->name,
         .shape = made,
         .title = node.op->name + details_of(graph_, node) + ", " + describe(node.site),
         .is_node = true});
    join_constants(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      read(node.inputs[i], item, node.mutates(i));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.mutates(i))
        written_by_[graph_.root(node.inputs[i])] = item;
    }
    for (const auto [value, is_made] : node.results) {
      if (is_made)
        made_by_[value] = item;
      else
        write_into(value, item);
    }
  }

  // What was only there to be written needs no oval above.
  void write_into(ValueId value, std::size_t item) {
    const auto before = written_by_[graph_.root(value)] ? written_by_[graph_.root(value)] : made_by_[value];
    if (before && *before != item)
      add_edge(*before, item, true);
    written_by_[graph_.root(value)] = item;
  }

  // Constants stand right above those that read them.
  void lower_constants() {
    std::map<std::size_t, std::size_t> first;
    for (const Edge& edge : edges) {
      const auto [at, fresh] = first.try_emplace(edge.from, items[edge.to].depth);
      at->second = std::min(at->second, items[edge.to].depth);
    }
    for (std::size_t item = graph_.inputs.size(); item < items.size(); ++item) {
      if (const auto at = first.find(item); !items[item].is_node && at != first.end())
        items[item].depth = at->second - 1;
    }
  }

  const Graph& graph_;
  std::vector<std::optional<std::size_t>> made_by_, written_by_;  // items, by value and by root
  std::vector<std::optional<std::size_t>> oval_;
  std::vector<std::size_t> readers_;  // how often a value is read
};

/// Gives every item a place: in its layer by where those stand that it comes from.
class Layout {
 public:
  explicit Layout(Scene& scene) : scene_(scene) {
    for (std::size_t item = 0; item < scene.items.size(); ++item) {
      const std::size_t depth = scene.items[item].depth;
      layers_.resize(std::max(layers_.size(), depth + 1));
      layers_[depth].push_back(item);
    }
    for (std::vector<std::size_t>& layer : layers_)
      place(layer);
    to_the_right();
  }

  std::int64_t width = 0;
  std::int64_t height() const { return static_cast<std::int64_t>(layers_.size()) * k_row + 2 * k_margin; }

 private:
  std::int64_t wanted(std::size_t item) const {
    std::int64_t sum = 0, count = 0;
    for (const Edge& edge : scene_.edges) {
      if (edge.to == item && scene_.items[edge.from].depth < scene_.items[item].depth) {
        sum += scene_.items[edge.from].x;
        ++count;
      }
    }
    return count == 0 ? 0 : sum / count;
  }

  // As near to what is wanted as their widths let them, the whole layer moved to the middle of that.
  void place(std::vector<std::size_t>& layer) {
    std::vector<std::pair<std::int64_t, std::size_t>> order;
    for (const std::size_t item : layer)
      order.emplace_back(wanted(item), item);
    std::sort(order.begin(), order.end());
    std::int64_t end = order.front().first - 1'000'000, too_far = 0;
    for (const auto& [x, item] : order) {
      Item& placed = scene_.items[item];
      placed.x = std::max(x, end + k_gap + placed.width / 2);
      end = placed.x + placed.width / 2;
      too_far += placed.x - x;
    }
    for (const std::size_t item : layer)
      scene_.items[item].x -= too_far / static_cast<std::int64_t>(layer.size());
  }

  void to_the_right() {
    std::int64_t left = 0;
    for (const Item& item : scene_.items)
      left = std::min(left, item.x - item.width / 2);
    for (Item& item : scene_.items) {
      item.x += k_margin - left;
      width = std::max(width, item.x + item.width / 2 + k_margin);
    }
  }

  Scene& scene_;
  std::vector<std::vector<std::size_t>> layers_;
};

std::int64_t top_of(const Item& item) {
  return k_margin + static_cast<std::int64_t>(item.depth) * k_row;
}

}  // namespace

std::string to_svg(const Graph& graph) {
  Scene scene(graph);
  const Layout layout(scene);
  SvgWriter svg(std::max<std::int64_t>(layout.width, 100), layout.height());
  for (const Edge& edge : scene.edges) {
    const Item &from = scene.items[edge.from], &to = scene.items[edge.to];
    svg.arrow(from.x, top_of(from) + k_high, to.x, top_of(to), edge.writes);
  }
  for (const Item& item : scene.items) {
    const std::int64_t y = top_of(item);
    svg.box(
        {item.x - item.width / 2, y, item.width, k_high, item.is_node ? 4 : k_high / 2},
        item.is_node ? "#ddf4ff" : "#f6f8fa",
        item.title);
    svg.text(item.x, y + 17, item.name, SvgWriter::Anchor::middle);
    svg.text(item.x, y + 33, item.shape, SvgWriter::Anchor::middle);
  }
  return std::move(svg).finish();
}

}  // namespace sluice::graph
