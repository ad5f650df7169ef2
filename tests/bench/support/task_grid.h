#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The task graphs of Task Bench (Slaughter et al., "Task Bench: A Parameterized Benchmark for Evaluating Parallel
// Runtime Performance", 2020) with compute-bound bodies. Knows no task system, so that peers run the same work.
namespace task_grid {

/// One point of a grid: writes a cell, reads others. Points of even and odd rows write the two halves of the cells, so
/// a point must also wait for the readers of what it overwrites.
struct Point {
  int target = 0;
  std::uint32_t first_source = 0, sources = 0;
};

struct Grid {
  std::string name;
  int width = 0;
  std::vector<Point> points;  // row by row
  std::vector<int> all_sources;

  std::span<const int> sources_of(const Point& point) const {
    return {all_sources.data() + point.first_source, point.sources};
  }
};

inline const char* const k_names[] = {"trivial", "stencil", "fft", "sweep", "tree", "random", "all-to-all"};

inline std::uint64_t mixed(std::uint64_t value, std::uint64_t other) {
  value = (value ^ other) * 0xbf58476d1ce4e5b9ULL;
  return value ^ (value >> 29);
}

/// Columns of the row above that a point reads; those outside the row are left out by the caller.
inline std::vector<int> columns_above(const std::string& name, int row, int column, int width, int width_above) {
  if (name == "stencil")
    return {column - 1, column, column + 1};
  if (name == "sweep")
    return {column - 1, column};
  if (name == "tree")  // rows double up to the full width, then halve down to one point, and again
    return width > width_above ? std::vector<int>{column / 2} : std::vector<int>{2 * column, 2 * column + 1};
  std::vector<int> columns;
  if (name == "fft") {
    int log = 0;
    while (2 << log < width)
      ++log;
    const int stride = 1 << row % (log + 1);
    columns = {column - stride, column, column + stride};
  } else if (name == "random") {
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::uint64_t die =
          mixed(mixed(static_cast<std::uint64_t>(row), i + 7), static_cast<std::uint64_t>(column));
      columns.push_back(static_cast<int>(die % static_cast<std::uint64_t>(width)));
    }
  } else if (name == "all-to-all") {
    for (int i = 0; i < width; ++i)
      columns.push_back(i);
  }
  return columns;  // trivial: none
}

/// Whole rows with at least `tasks` points in all; `width` is a power of two, at least 2.
inline Grid make_grid(const std::string& name, int width, std::size_t tasks) {
  Grid grid{name, width, {}, {}};
  const bool tree = name == "tree";
  bool grows = true;
  int here = tree ? 1 : width, above = 0;
  for (int row = 0; grid.points.size() < tasks; ++row) {
    for (int column = 0; column < here; ++column) {
      Point point{row % 2 * width + column, static_cast<std::uint32_t>(grid.all_sources.size()), 0};
      if (row > 0) {
        std::vector<bool> taken(static_cast<std::size_t>(above));
        for (int source : columns_above(name, row, column, here, above)) {
          if (source < 0 || source >= above || taken[static_cast<std::size_t>(source)])
            continue;
          taken[static_cast<std::size_t>(source)] = true;
          grid.all_sources.push_back((row + 1) % 2 * width + source);
          ++point.sources;
        }
      }
      grid.points.push_back(point);
    }
    above = here;
    if (tree) {
      grows = here == 1 || (grows && here < width);
      here = grows ? 2 * here : here / 2;
    }
  }
  return grid;
}

/// `turns` of a loop that neither memory nor the compiler can shorten.
inline void work(std::int64_t turns) {
  std::uint64_t x = 1;
  for (std::int64_t i = 0; i < turns; ++i) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(x));
  }
}

/// The body of a point. Its value depends on its number and on all that it reads: whatever runs too early or too late
/// changes the checksum.
inline void run_point(const Grid& grid, const Point& point, std::uint64_t* cells, std::int64_t turns) {
  std::uint64_t value = static_cast<std::uint64_t>(&point - grid.points.data()) + 1;
  for (int source : grid.sources_of(point))
    value = mixed(value, cells[source]);
  work(turns);
  cells[point.target] = value;
}

using Cells = std::vector<std::uint64_t>;

inline std::uint64_t checksum(const Cells& cells) {
  std::uint64_t sum = 0;
  for (std::uint64_t cell : cells)
    sum = mixed(sum, cell + 1);
  return sum;
}

inline std::uint64_t serial_checksum(const Grid& grid) {
  Cells cells(2 * static_cast<std::size_t>(grid.width));
  for (const Point& point : grid.points)
    run_point(grid, point, cells.data(), 0);
  return checksum(cells);
}

}  // namespace task_grid
