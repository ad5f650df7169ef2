#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The task graphs of CUDASTF's own stress program for empty tasks, after Task Bench (Slaughter et al., 2020). Knows no
// task system, so that CUDASTF itself runs the same work: tests/bench/peers/cudastf_tasks.cu.
namespace stf_patterns {

inline const char* const k_names[] = {"trivial", "stencil", "fft", "sweep", "tree", "random"};

/// Updates item `target`, reads the others: indices of step * width + column.
struct Task {
  int target = 0;
  std::vector<int> sources;
};

struct Graph {
  std::string name;
  int items = 0;
  std::vector<Task> tasks;
};

/// Columns that task (step, column) reads one step earlier; some lie outside, the caller leaves them out.
inline std::vector<int> columns_before(const std::string& name, int step, int column, int width) {
  const int half = step > 0 && step < 32 ? 1 << (step - 1) : 0;
  if (name == "stencil")
    return {column, column - 1, column + 1};
  if (name == "fft")
    return half > 0 ? std::vector<int>{column, column - half, column + half} : std::vector<int>{column};
  if (name == "sweep")
    return {column, column - 1};
  if (name == "tree")
    return {column, column + half};
  if (name == "random") {
    std::vector<int> columns;
    for (std::uint64_t k = 0; k < 2; ++k) {
      std::uint64_t die = (static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(column) << 1 | k) + 1;
      die *= 0x9e3779b97f4a7c15ULL;
      columns.push_back(static_cast<int>((die ^ (die >> 29)) % static_cast<std::uint64_t>(width)));
    }
    return columns;
  }
  return {};  // trivial
}

/// Tasks that a pattern does not have: sweep keeps the corner that CUDASTF keeps, tree halves from step to step.
inline bool left_out(const std::string& name, int step, int column) {
  if (name == "sweep")
    return column <= step;
  return name == "tree" && step > 0 && (step >= 31 || column % (1 << step) != 0);
}

inline Graph make_graph(const std::string& name, int width, int steps) {
  Graph graph{name, width * steps, {}};
  for (int step = 0; step < steps; ++step) {
    for (int column = 0; column < width; ++column) {
      if (left_out(name, step, column))
        continue;
      Task task{step * width + column, {}};
      if (step > 0) {
        for (int source : columns_before(name, step, column, width)) {
          if (source >= 0 && source < width)
            task.sources.push_back((step - 1) * width + source);
        }
      }
      graph.tasks.push_back(std::move(task));
    }
  }
  return graph;
}

}  // namespace stf_patterns
