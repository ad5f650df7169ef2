#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/ndarray/detail/simd_turn.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/ndarray/simd_turn.cpp>
#include <algorithm>
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors are made of blocks of 16 bytes, `side` elements. One vector is filled with a block of each side-th row, as
// many as there are lanes; squares of blocks turned in place, all at once, are then neighbours of the target.
template <class T>
struct Squares {
  using D = hn::ScalableTag<T>;
  static constexpr std::int64_t side = 16 / sizeof(T);
  static constexpr std::int64_t lanes = hn::MaxLanes(D{});

  T* to;
  std::int64_t to_step;
  const T* from;
  std::int64_t from_step;

  // `lanes` values of i, `side` of a.
  template <bool stream>
  HWY_INLINE void turn(std::int64_t i, std::int64_t a) const {
    const D d;
    const T* const source = from + i * from_step + a;
    hn::Vec<D> rows[side];
    for (std::int64_t k = 0; k < side; ++k)
      rows[k] = blocks(D{}, source + k * from_step);
    for (std::int64_t done = 1; done < side; done *= 2)
      shuffle(rows);
    for (std::int64_t k = 0; k < side; ++k) {
      T* const target = to + (a + k) * to_step + i;
      if constexpr (stream) {
        hn::Stream(rows[k], d, target);
      } else {
        hn::StoreU(rows[k], d, target);
      }
    }
  }

  // Lines of the target that are written soon, two side by side.
  HWY_INLINE void expect(std::int64_t i, std::int64_t a, std::int64_t end) const {
    for (; a < end; ++a) {
      __builtin_prefetch(to + a * to_step + i, 1);
      __builtin_prefetch(to + a * to_step + i + 64 / sizeof(T), 1);
    }
  }

 private:
  // The block at `source` and those of the rows that are `side` apart from it.
  template <class V>
  HWY_INLINE hn::Vec<V> blocks(V vector, const T* source) const {
    if constexpr (sizeof(T) * hn::MaxLanes(V{}) == 16) {
      return hn::LoadU(vector, source);
    } else {
      const hn::Half<V> half;
      constexpr std::int64_t rows = hn::MaxLanes(hn::Half<V>{});
      return hn::Combine(vector, blocks(half, source + rows * from_step), blocks(half, source));
    }
  }
  static HWY_INLINE void shuffle(hn::Vec<D> (&rows)[side]) {
    hn::Vec<D> next[side];
    for (std::int64_t k = 0; k < side / 2; ++k) {
      next[2 * k] = hn::InterleaveLower(D{}, rows[k], rows[k + side / 2]);
      next[2 * k + 1] = hn::InterleaveUpper(D{}, rows[k], rows[k + side / 2]);
    }
    for (std::int64_t k = 0; k < side; ++k)
      rows[k] = next[k];
  }
};

// Two lines of the target side by side, one line of the source to its end.
template <class T, bool stream>
void turn_squares(const Squares<T>& squares, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t line = 64 / sizeof(T), height = 2 * line, lanes = Squares<T>::lanes, side = Squares<T>::side;
  for (std::int64_t i = 0; i < rows; i += height) {
    const std::int64_t end = std::min(rows, i + height);
    for (std::int64_t a = 0; a < columns; a += line) {
      const std::int64_t across = std::min(columns, a + line);
      if constexpr (!stream)
        squares.expect(i, a + 2 * line, std::min(columns, a + 3 * line));
      for (std::int64_t down = i; down < end; down += line) {
        for (std::int64_t b = a; b < across; b += side) {
          for (std::int64_t j = down; j < std::min(end, down + line); j += lanes)
            squares.template turn<stream>(j, b);
        }
      }
    }
  }
}

template <class T>
bool turn_all(
    T* to,
    std::int64_t to_step,
    const T* from,
    std::int64_t from_step,
    std::int64_t rows,
    std::int64_t columns,
    bool stream) {
  const Squares<T> squares{to, to_step, from, from_step};
  const std::int64_t down = rows / squares.lanes * squares.lanes, across = columns / squares.side * squares.side;
  if (stream) {
    turn_squares<T, true>(squares, down, across);
    hwy::FlushStream();
  } else {
    turn_squares<T, false>(squares, down, across);
  }
  for (std::int64_t a = 0; a < columns; ++a) {
    for (std::int64_t i = a < across ? down : 0; i < rows; ++i)
      to[a * to_step + i] = from[i * from_step + a];
  }
  return true;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class T>
bool turn(
    [[maybe_unused]] T* to,
    [[maybe_unused]] std::int64_t to_step,
    [[maybe_unused]] const T* from,
    [[maybe_unused]] std::int64_t from_step,
    [[maybe_unused]] std::int64_t rows,
    [[maybe_unused]] std::int64_t columns,
    [[maybe_unused]] bool stream) noexcept {
  SLUICE_SIMD_RETURN(turn_all(to, to_step, from, from_step, rows, columns, stream))
  return false;
}

#define SLUICE_TURN(T) \
  template bool turn(T*, std::int64_t, const T*, std::int64_t, std::int64_t, std::int64_t, bool) noexcept;
SLUICE_TURN(std::uint8_t)
SLUICE_TURN(std::uint16_t)
SLUICE_TURN(std::uint32_t)
SLUICE_TURN(std::uint64_t)
#undef SLUICE_TURN

}  // namespace sluice::simd
#endif
