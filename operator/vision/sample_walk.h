#pragma once

// Where samples of planes lie and what they are mixed of, for kernels of a GPU.
#include <cmath>
#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/vision/samples.h>

namespace sluice::detail {

/// The four neighbours of a place: (row, column), right of it, below it, and right of that. Those that are not there
/// count as 0 and are not read.
template <class C>
struct SamplePlace {
  std::int32_t row = 0, column = 0;  // of the first; -1 where only those behind it are there
  bool above = false, below = false, left = false, right = false;
  C down = 0, across = 0;

  SLUICE_HD bool is_anywhere() const { return (above || below) && (left || right); }
  /// Neighbour i.
  SLUICE_HD bool exists(int i) const { return (i < 2 ? above : below) && (i % 2 == 0 ? left : right); }
  SLUICE_HD C weight(int i) const { return (i < 2 ? 1 - down : down) * (i % 2 == 0 ? 1 - across : across); }
  SLUICE_HD std::int32_t at(int i, std::int32_t width) const {
    return exists(i) ? (row + i / 2) * width + column + i % 2 : 0;
  }
  /// What pixel (y, x), one of the four, weighs.
  SLUICE_HD C weight_of(std::int32_t y, std::int32_t x) const {
    return (y == row ? 1 - down : down) * (x == column ? 1 - across : across);
  }
};

template <class C>
struct SampleWalk {
  const C *rows = nullptr, *columns = nullptr;
  std::int64_t images = 0, channels = 0;
  std::int32_t height = 0, width = 0, points = 0;  // of each image
  bool nearest = false;

  SLUICE_HD std::int32_t plane() const { return height * width; }
  /// Of point `i` of all images.
  SLUICE_HD SamplePlace<C> place(std::int64_t i) const {
    SamplePlace<C> made;
    put(rows[i], height, made.row, made.above, made.below, made.down);
    put(columns[i], width, made.column, made.left, made.right, made.across);
    return made;
  }

 private:
  SLUICE_HD void put(C at, std::int32_t extent, std::int32_t& first, bool& here, bool& behind, C& part) const {
    const C low = nearest ? std::nearbyint(at) : std::floor(at);
    if (!(low >= -1 && low < C(1 << 30)))  // beyond all planes, or NaN
      return;
    // As whole numbers: not each number of pixels is a float.
    const auto whole = static_cast<std::int32_t>(low);
    here = whole >= 0 && whole < extent;
    behind = !nearest && whole + 1 < extent;
    if (here || behind) {
      first = whole;
      part = nearest ? C(0) : at - low;
    }
  }
};

/// `x` has the shape of the planes.
template <class C>
SampleWalk<C> sample_walk(const KernelCall& call, const Shape& x, const TensorView& rows, const TensorView& columns) {
  SampleWalk<C> walk;
  walk.rows = rows.as<const C>();
  walk.columns = columns.as<const C>();
  walk.images = x[0];
  walk.channels = x[1];
  walk.height = static_cast<std::int32_t>(x[2]);
  walk.width = static_cast<std::int32_t>(x[3]);
  walk.points = static_cast<std::int32_t>(rows.shape[1] * rows.shape[2]);
  walk.nearest = call.attributes.as<SamplesAttributes>().nearest;
  return walk;
}

/// The sample of plane `x`.
template <class C>
SLUICE_HD C sample_of(const C* x, const SamplePlace<C>& at, std::int32_t width) {
  C sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += at.exists(i) ? at.weight(i) * x[at.at(i, width)] : C(0);
  return sum;
}

/// How the sample of plane `x` grows with its row and its column.
template <class C>
struct Slopes {
  C down = 0, across = 0;

  SLUICE_HD void add(C by, const C* x, const SamplePlace<C>& at, std::int32_t width) {
    C values[4];
    for (int i = 0; i < 4; ++i)
      values[i] = at.exists(i) ? x[at.at(i, width)] : C(0);
    down += by * ((values[2] - values[0]) * (1 - at.across) + (values[3] - values[1]) * at.across);
    across += by * ((values[1] - values[0]) * (1 - at.down) + (values[3] - values[2]) * at.down);
  }
};

}  // namespace sluice::detail
