#include <optional>

#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/order.h>

namespace sluice::graph {

namespace {

/// Who wrote a piece of memory last, and who read it since.
struct Access {
  std::optional<std::size_t> writer;
  std::vector<std::size_t> readers;
};

}  // namespace

// A view runs nothing, but who reads it reads its root.
NodeOrder::NodeOrder(const Graph& graph)
    : words_((graph.nodes.size() + 63) / 64), bits_(graph.nodes.size() * ((graph.nodes.size() + 63) / 64)) {
  std::vector<Access> accesses(graph.values.size());
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    if (node.is_view())
      continue;
    for_each_read(graph, node, [&](ValueId root) {
      if (accesses[root].writer)
        add(*accesses[root].writer, at);
    });
    for_each_write(graph, node, [&](ValueId root) {
      Access& access = accesses[root];
      if (access.writer && *access.writer != at)
        add(*access.writer, at);
      for (const std::size_t reader : access.readers)
        add(reader, at);
    });
    for_each_read(graph, node, [&](ValueId root) { accesses[root].readers.push_back(at); });
    for_each_write(graph, node, [&](ValueId root) { accesses[root] = {at, {}}; });
  }
}

void NodeOrder::add(std::size_t before, std::size_t node) noexcept {
  bits_[node * words_ + before / 64] |= std::uint64_t{1} << (before % 64);
  for (std::size_t word = 0; word < words_; ++word)
    bits_[node * words_ + word] |= bits_[before * words_ + word];
}

}  // namespace sluice::graph
