#pragma once

// One element of each pooling pass, the same on CPU and GPU.
#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/pool/geometry.h>

namespace sluice::detail {

/// Positions [begin, end) along one axis.
struct Span1D {
  std::int64_t begin, end;
};

SLUICE_HD inline std::int64_t smaller(std::int64_t a, std::int64_t b) noexcept {
  return a < b ? a : b;
}
SLUICE_HD inline std::int64_t larger(std::int64_t a, std::int64_t b) noexcept {
  return a > b ? a : b;
}

/// The inputs of window `o` along an axis that lie inside.
SLUICE_HD inline Span1D window_inside(const PoolGeometry& g, int axis, std::int64_t o) noexcept {
  const std::int64_t start = o * g.stride[axis] - g.pad[axis];
  return {larger(start, 0), smaller(start + g.kernel[axis], g.in[axis])};
}

/// The windows that cover input `i` along an axis.
SLUICE_HD inline Span1D windows_of(const PoolGeometry& g, int axis, std::int64_t i) noexcept {
  const std::int64_t last = i + g.pad[axis];
  const std::int64_t before = last - g.kernel[axis] + 1;  // the first window starts here or later
  const std::int64_t first = before <= 0 ? 0 : (before + g.stride[axis] - 1) / g.stride[axis];
  return {first, smaller(last / g.stride[axis] + 1, g.out[axis])};
}

/// Elements that the mean of a window divides by.
SLUICE_HD inline std::int64_t window_count(const PoolGeometry& g, std::int64_t oy, std::int64_t ox) noexcept {
  std::int64_t count = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t o = axis == 0 ? oy : ox;
    if (g.count_include_pad) {
      const std::int64_t start = o * g.stride[axis] - g.pad[axis];
      count *= smaller(start + g.kernel[axis], g.in[axis] + g.pad_end[axis]) - start;
    } else {
      const Span1D inside = window_inside(g, axis, o);
      count *= inside.end - inside.begin;
    }
  }
  return count;
}

/// Where in its plane the largest value of a window is: the first of equal ones, the first NaN if there is one.
template <class Acc, class T>
SLUICE_HD std::int32_t max_of_window(const PoolGeometry& g, const T* plane, std::int64_t oy, std::int64_t ox) {
  const Span1D ys = window_inside(g, 0, oy);
  const Span1D xs = window_inside(g, 1, ox);
  std::int64_t best = ys.begin * g.in[1] + xs.begin;
  Acc largest = static_cast<Acc>(plane[best]);
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    for (std::int64_t x = xs.begin; x < xs.end; ++x) {
      const Acc value = static_cast<Acc>(plane[y * g.in[1] + x]);
      // A NaN beats every number, nothing beats a NaN.
      if (value > largest || (value != value && largest == largest)) {
        largest = value;
        best = y * g.in[1] + x;
      }
    }
  }
  return static_cast<std::int32_t>(best);
}

template <class Acc, class T>
SLUICE_HD Acc mean_of_window(const PoolGeometry& g, const T* plane, std::int64_t oy, std::int64_t ox) {
  const Span1D ys = window_inside(g, 0, oy);
  const Span1D xs = window_inside(g, 1, ox);
  Acc sum = 0;
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    for (std::int64_t x = xs.begin; x < xs.end; ++x)
      sum += static_cast<Acc>(plane[y * g.in[1] + x]);
  }
  return sum / static_cast<Acc>(window_count(g, oy, ox));
}

/// The gradient of one input: the sum over the windows whose maximum it is.
template <class Acc, class T>
SLUICE_HD Acc
max_gradient(const PoolGeometry& g, const T* dy, const std::int32_t* index, std::int64_t iy, std::int64_t ix) {
  const Span1D ys = windows_of(g, 0, iy);
  const Span1D xs = windows_of(g, 1, ix);
  const auto here = static_cast<std::int32_t>(iy * g.in[1] + ix);
  Acc sum = 0;
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    for (std::int64_t x = xs.begin; x < xs.end; ++x) {
      if (index[y * g.out[1] + x] == here)
        sum += static_cast<Acc>(dy[y * g.out[1] + x]);
    }
  }
  return sum;
}

}  // namespace sluice::detail
