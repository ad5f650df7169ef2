#pragma once

// What the tests of regions share.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <sluice/engine/region.h>

#include "tests/engine/sim_run.h"

namespace sluice::test {

using Word = std::uint64_t;

/// Pushes a capturable task that appends `value`; `also` is done in its body first.
template <class Also>
TaskHandle push_append(Engine& engine, const Var& var, Word& word, Word value, Also also) {
  return engine.push(
      {.name = "append", .device = gpu(0), .access = {write(var)}, .capturable = true},
      [&word, value, also](Queue queue) {
        also(queue);
        sim_launch(queue, [&word, value] { word = 3 * word + value; });
      });
}
inline TaskHandle push_append(Engine& engine, const Var& var, Word& word, Word value) {
  return push_append(engine, var, word, value, [](Queue) {});
}

/// A call that no capture allows.
inline void spoil(Queue queue) {
  cudaStreamQuery(static_cast<cudaStream_t>(queue.stream()));
  cudaGetLastError();
}

/// A Var, the word behind it, and an engine with one worker.
struct Chain {
  explicit Chain(EngineOptions options = {.workers = 1}) : engine(options), x(engine.new_var()) {}

  /// Pushes tasks that append 0, 1, ... `count - 1`.
  void push(int count) {
    for (int i = 0; i < count; ++i)
      push_append(engine, x, word, static_cast<Word>(i));
  }
  /// What the word is after so many rounds of that.
  static Word expected(int rounds, int count) {
    Word word = 0;
    for (int i = 0; i < rounds * count; ++i)
      word = 3 * word + static_cast<Word>(i % count);
    return word;
  }

  Engine engine;
  Var x;
  Word word = 0;
};

using Edges = std::set<std::pair<std::size_t, std::size_t>>;

/// The edges of the graph that is being captured on `stream`, by the order in which the nodes came.
inline Edges captured_edges(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  std::size_t nodes = 0, count = 0;
  cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
  cudaGraphGetNodes(graph, nullptr, &nodes);
  std::vector<cudaGraphNode_t> order(nodes);
  cudaGraphGetNodes(graph, order.data(), &nodes);
  cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
  std::vector<cudaGraphNode_t> from(count), to(count);
  cudaGraphGetEdges(graph, from.data(), to.data(), nullptr, &count);
  const auto number = [&order](cudaGraphNode_t node) {
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), node) - order.begin());
  };
  Edges edges;
  for (std::size_t i = 0; i < count; ++i)
    edges.insert({number(from[i]), number(to[i])});
  return edges;
}

}  // namespace sluice::test
