// Copies that turn axes: neighbours of the target lie apart in the source, neighbours of the source in the target.
// Squares of a cache line a side are read whole and written whole, in tiles whose pages stay known to the processor.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/simd_turn.h>
#include <sluice/ndarray/element_size.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_line = 64;       // bytes
constexpr std::int64_t k_tile_lines = 8;  // squares along a side of a tile
constexpr std::int64_t k_ahead = 2;       // squares whose lines are asked for before they are needed

/// to[a * to_step + i] = from[i * from_step + a].
template <class T>
class Turn {
 public:
  static constexpr std::int64_t side = k_line / static_cast<std::int64_t>(sizeof(T));
  static constexpr std::int64_t tile = side * k_tile_lines;

  Turn(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) noexcept
      : to_(to), to_step_(to_step), from_(from), from_step_(from_step) {}

  /// The part of `rows` values of i and `columns` of a, at most tile each, that begins at (i0, a0).
  void run(std::int64_t i0, std::int64_t rows, std::int64_t a0, std::int64_t columns) const noexcept {
    for (std::int64_t i = i0; i < i0 + rows; i += side) {
      const std::int64_t height = std::min(side, i0 + rows - i);
      for (std::int64_t a = a0; a < a0 + columns; a += side) {
        const std::int64_t width = std::min(side, a0 + columns - a);
        if (height < side || width < side) {
          edge(i, height, a, width);
          continue;
        }
        if (a + (k_ahead + 1) * side <= a0 + columns)
          prefetch(i, a + k_ahead * side);
        square(i, a);
      }
    }
  }

 private:
  T* target(std::int64_t i, std::int64_t a) const noexcept { return to_ + a * to_step_ + i; }
  const T* source(std::int64_t i, std::int64_t a) const noexcept { return from_ + i * from_step_ + a; }

  void prefetch(std::int64_t i, std::int64_t a) const noexcept {
    for (std::int64_t k = 0; k < side; ++k) {
      __builtin_prefetch(source(i + k, a), 0);
      __builtin_prefetch(target(i, a + k), 1);
    }
  }
  void square(std::int64_t i, std::int64_t a) const noexcept {
    alignas(k_line) T lines[side][side];
    for (std::int64_t k = 0; k < side; ++k)
      std::memcpy(lines[k], source(i + k, a), sizeof(lines[k]));
    for (std::int64_t column = 0; column < side; ++column) {
      T* const to = target(i, a + column);
      for (std::int64_t row = 0; row < side; ++row)
        to[row] = lines[row][column];
    }
  }
  void edge(std::int64_t i, std::int64_t height, std::int64_t a, std::int64_t width) const noexcept {
    for (std::int64_t column = 0; column < width; ++column) {
      for (std::int64_t row = 0; row < height; ++row)
        *target(i + row, a + column) = *source(i + row, a + column);
    }
  }

  T* to_;
  std::int64_t to_step_;
  const T* from_;
  std::int64_t from_step_;
};

// The axis along which the source's elements are neighbours, if the target's are along the innermost one and both are
// long enough to be worth it; otherwise -1.
int turned_axis(const CopyPlan& plan, std::int64_t least) noexcept {
  const int inner = plan.ndim - 1;
  if (plan.strides[0][inner] != 1 || plan.extents[inner] < least)
    return -1;
  for (int axis = 0; axis < inner; ++axis) {
    if (plan.strides[1][axis] == 1 && plan.extents[axis] >= least)
      return axis;
  }
  return -1;
}

// How much is turned at a time, elements of i and a. Past the caches the tiles are large: each of a few hundred pages
// is then written a good part of before it is forgotten. Otherwise what is written stays until its lines are full.
struct TileShape {
  std::int64_t rows, columns;
};
template <class T>
constexpr TileShape k_near{Turn<T>::tile, Turn<T>::tile};
template <class T>
constexpr TileShape k_past{1024 / sizeof(T), 2048 / sizeof(T)};

// Results that will not be found in a cache anyway go past it, where whole lines of it can be written.
template <class T>
bool streams(const CopyPlan& plan, const T* to, int axis) noexcept {
  constexpr std::int64_t k_large = std::int64_t{4} << 20;
  const auto size = static_cast<std::int64_t>(sizeof(T));
  bool whole = reinterpret_cast<std::uintptr_t>(to) % k_line == 0 && plan.size * size >= k_large;
  for (int i = 0; i < plan.ndim - 1; ++i)
    whole = whole && (plan.extents[i] == 1 || plan.strides[0][i] * size % k_line == 0);
  return whole && plan.extents[axis] >= Turn<T>::side && plan.extents[plan.ndim - 1] >= Turn<T>::side;
}

template <class T>
bool turn(const CopyPlan& plan, T* to, const T* from) {
  using Tiles = Turn<T>;
  const int inner = plan.ndim - 1, axis = turned_axis(plan, std::min<std::int64_t>(8, Tiles::side));
  if (axis < 0)
    return false;
  const bool stream = streams(plan, to, axis);
  const TileShape tile = stream ? k_past<T> : k_near<T>;
  const std::int64_t rows = plan.extents[inner], columns = plan.extents[axis];
  const std::int64_t down = (rows + tile.rows - 1) / tile.rows, across = (columns + tile.columns - 1) / tile.columns;
  const std::int64_t to_step = plan.strides[0][axis], from_step = plan.strides[1][inner];
  CopyPlan outer = plan;  // the axes beside the two
  outer.extents[inner] = outer.extents[axis] = 1;
  outer.size = plan.size / (rows * columns);
  parallel_for(outer.size * down * across, stream ? 1 : 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t i = unit % down * tile.rows, a = unit / down % across * tile.columns;
      const std::int64_t height = std::min(tile.rows, rows - i), width = std::min(tile.columns, columns - a);
      const std::int64_t which = unit / (down * across);
      walk_runs(outer, which, which + 1, [&](const StridedRun<2>& run) {
        T* const target = to + run.offset[0];
        const T* const source = from + run.offset[1];
        if (!simd::turn(
                target + a * to_step + i, to_step, source + i * from_step + a, from_step, height, width, stream))
          Tiles(target, to_step, source, from_step).run(i, height, a, width);
      });
    }
  });
  return true;
}

}  // namespace

bool transpose_on_cpu(const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  return by_element_size(
      element, [&]<class T>() { return turn(plan, static_cast<T*>(to), static_cast<const T*>(from)); });
}

}  // namespace sluice::detail
