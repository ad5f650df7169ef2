#pragma once

// Pooling on a GPU, whichever way images lie: as (outer, height, width, inner) in memory, with the images' planes as
// `outer` and inner 1 where they lie row-major, and the channels as `inner` where those are neighbours. The arithmetic
// is that of window.h, in the narrowest type and with divisions by multiplication.
#include <cstdint>

#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/pool/geometry.h>

namespace sluice::detail {

/// One side of a pooling: extents of its planes, and how a linear index of vectors falls apart.
template <class Index>
struct PoolSide {
  Index height = 0, width = 0;
  Divider<Index> by_height, by_width;

  explicit PoolSide(const std::int64_t (&extent)[2])
      : height(static_cast<Index>(extent[0])),
        width(static_cast<Index>(extent[1])),
        by_height(extent[0]),
        by_width(extent[1]) {}
};

template <class Index>
struct PoolWalk {
  PoolSide<Index> in, out;
  Index total;  // vectors of the side that is walked
  Divider<Index> inner;
  Index kernel[2], stride[2], pad[2];
  Index end[2];  // of the image and the padding behind it
  Divider<Index> by_stride[2];
  bool count_include_pad;

  PoolWalk(const PoolGeometry& g, std::int64_t walked, std::int64_t vectors_inside)
      : in(g.in),
        out(g.out),
        total(static_cast<Index>(walked)),
        inner(vectors_inside),
        by_stride{Divider<Index>(g.stride[0]), Divider<Index>(g.stride[1])},
        count_include_pad(g.count_include_pad) {
    for (int axis = 0; axis < 2; ++axis) {
      kernel[axis] = static_cast<Index>(g.kernel[axis]);
      stride[axis] = static_cast<Index>(g.stride[axis]);
      pad[axis] = static_cast<Index>(g.pad[axis]);
      end[axis] = static_cast<Index>(g.in[axis] + g.pad_end[axis]);
    }
  }

  struct Place {
    Index outer, y, x, inner;
  };
  __device__ Place place(const PoolSide<Index>& side, Index linear) const {
    Place at;
    Index rest = linear;
    if (inner.value() != 1) {
      rest = inner.divide(linear);
      at.inner = linear - rest * inner.value();
    } else {
      at.inner = 0;
    }
    Index row = side.by_width.divide(rest);
    at.x = rest - row * side.width;
    at.outer = side.by_height.divide(row);
    at.y = row - at.outer * side.height;
    return at;
  }
  /// The vector at (y, x) of the plane that `at` is in.
  __device__ Index vector(const PoolSide<Index>& side, const Place& at, Index y, Index x) const {
    return ((at.outer * side.height + y) * side.width + x) * inner.value() + at.inner;
  }

  struct Range {
    Index begin, end;
  };
  /// The inputs of window `o` along an axis that lie inside.
  __device__ Range window(int axis, Index o) const {
    const Index start = o * stride[axis] - pad[axis];
    const Index extent = axis == 0 ? in.height : in.width;
    return {start > 0 ? start : Index{0}, min(start + kernel[axis], extent)};
  }
  /// The windows that cover input `i` along an axis.
  __device__ Range windows_of(int axis, Index i) const {
    const Index last = i + pad[axis], before = last - kernel[axis] + 1;
    const Index first = before <= 0 ? Index{0} : by_stride[axis].divide(before + stride[axis] - 1);
    return {first, min(by_stride[axis].divide(last) + 1, axis == 0 ? out.height : out.width)};
  }
  /// Elements along an axis that the mean of window `o` divides by.
  __device__ Index counted(int axis, Index o) const {
    if (!count_include_pad) {
      const Range inside = window(axis, o);
      return inside.end - inside.begin;
    }
    const Index start = o * stride[axis] - pad[axis];
    return min(start + kernel[axis], end[axis]) - start;
  }
};

}  // namespace sluice::detail
