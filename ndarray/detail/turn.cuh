#pragma once

// Copies between arrays whose neighbours lie along different axes: what blocks are told, and where each works.
#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {

/// Elements along each side of a tile in shared memory: rows of 256 bytes, where elements have more than one.
template <class Bits>
inline constexpr int k_tile = sizeof(Bits) <= 2 ? 128 : 64;

/// The two axes of a plan along which elements are neighbours: where they are read, and where they are written.
struct Turn {
  std::int64_t read_extent, write_extent;
  std::int64_t read_step;   // elements read, from one place along the written axis to the next
  std::int64_t write_step;  // elements written, from one place along the read axis to the next
  unsigned read_tiles = 0, write_tiles = 0;
  unsigned group = 0, groups = 0;  // of tiles along the read axis; the last group may have places without a tile
  unsigned blocks = 0;

  Turn(const CopyPlan& plan, int read_axis)
      : read_extent(plan.extents[read_axis]),
        write_extent(plan.extents[plan.ndim - 1]),
        read_step(plan.strides[1][plan.ndim - 1]),
        write_step(plan.strides[0][read_axis]) {}

  /// Cuts both axes into tiles of `side`, which along the written axis begin up to `reach` places before the array,
  /// for as many pairs as `rest` says. False where there are more than can be launched.
  bool cut(std::int64_t side, std::int64_t reach, std::int64_t rest) noexcept {
    constexpr std::int64_t most_side_by_side = 4;  // where they are read: 1 KB of a row at about one time
    const std::int64_t along = (read_extent + side - 1) / side, across = (write_extent + reach + side - 1) / side;
    const std::int64_t together = std::min(along, most_side_by_side), all = (along + together - 1) / together;
    const std::int64_t launched = together * all * across * rest;
    if (launched > std::numeric_limits<std::int32_t>::max())
      return false;
    read_tiles = static_cast<unsigned>(along);
    write_tiles = static_cast<unsigned>(across);
    group = static_cast<unsigned>(together);
    groups = static_cast<unsigned>(all);
    blocks = static_cast<unsigned>(launched);
    return true;
  }
};

/// Where a block works.
struct Place {
  unsigned read_tile, write_tile, rest;

  __device__ Place(unsigned block, const Turn& turn) {
    unsigned left = block / turn.group;
    write_tile = left % turn.write_tiles;
    left /= turn.write_tiles;
    read_tile = left % turn.groups * turn.group + block % turn.group;
    rest = left / turn.groups;
  }
};

}  // namespace sluice::detail
