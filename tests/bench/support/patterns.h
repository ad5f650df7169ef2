#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Five task graphs, after Task Bench (Slaughter et al., 2020): the same definitions as the peers' programs use, so that
// all are timed on the same work. Each step reads some items and updates one.
namespace sluice::bench {

struct Step {
  int target;                // item that is updated
  std::vector<int> sources;  // items that are read, never the target
};

struct Pattern {
  std::string name;
  int items;
  std::vector<Step> steps;
};

inline Pattern independent(int n, int width = 64) {
  Pattern pattern{"independent", width, {}};
  for (int i = 0; i < n; ++i)
    pattern.steps.push_back({i % width, {}});
  return pattern;
}

inline Pattern chain(int n) {
  return {"chain", 1, std::vector<Step>(n, Step{0, {}})};
}

/// Row t is computed from the neighbours in row t - 1; even and odd rows are the two halves of the items.
inline Pattern stencil(int rows, int width = 16) {
  Pattern pattern{"stencil", 2 * width, {}};
  for (int row = 0; row < rows; ++row) {
    const int here = row % 2 * width, above = (row + 1) % 2 * width;
    for (int i = 0; i < width; ++i) {
      Step step{here + i, {above + i}};
      if (i > 0)
        step.sources.push_back(above + i - 1);
      if (i + 1 < width)
        step.sources.push_back(above + i + 1);
      pattern.steps.push_back(std::move(step));
    }
  }
  return pattern;
}

/// One writer, then `width` readers of what it wrote, again and again.
inline Pattern fan_out(int rounds, int width = 32) {
  Pattern pattern{"fan-out", 1 + width, {}};
  for (int round = 0; round < rounds; ++round) {
    pattern.steps.push_back({0, {}});
    for (int i = 1; i <= width; ++i)
      pattern.steps.push_back({i, {0}});
  }
  return pattern;
}

/// One random target and up to two random sources a step.
inline Pattern random_graph(int n, int items = 64, unsigned seed = 7) {
  Pattern pattern{"random", items, {}};
  std::mt19937 random(seed);
  auto pick = [&] { return static_cast<int>(random() % static_cast<unsigned>(items)); };
  for (int i = 0; i < n; ++i) {
    Step step{pick(), {}};
    for (int k = 0; k < 2; ++k) {
      const int source = pick();
      if (source != step.target && (step.sources.empty() || step.sources[0] != source))
        step.sources.push_back(source);
    }
    pattern.steps.push_back(std::move(step));
  }
  return pattern;
}

inline std::vector<Pattern> all_patterns(int n) {
  return {independent(n), chain(n), stencil(n / 16), fan_out(n / 33), random_graph(n)};
}

/// Order-sensitive: a lost, doubled or reordered step changes every later value. Device code calls it too.
constexpr std::uint64_t mixed(std::uint64_t value, std::uint64_t other) {
  return (value * 6364136223846793005ULL + 1442695040888963407ULL) ^ (other >> 7);
}

inline void run_step(const Step& step, std::uint64_t* items, int spin) {
  std::uint64_t value = items[step.target] + 1;
  for (int source : step.sources)
    value = mixed(value, items[source]);
  volatile int turns = 0;
  while (turns < spin)
    turns = turns + 1;
  items[step.target] = mixed(value, value);
}

inline std::uint64_t checksum(const std::vector<std::uint64_t>& items) {
  std::uint64_t sum = 0;
  for (std::uint64_t item : items)
    sum = mixed(sum, item);
  return sum;
}

inline std::uint64_t serial_checksum(const Pattern& pattern) {
  std::vector<std::uint64_t> items(pattern.items, 1);
  for (const Step& step : pattern.steps)
    run_step(step, items.data(), 0);
  return checksum(items);
}

}  // namespace sluice::bench
