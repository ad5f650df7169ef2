#pragma once

// The order in which a GPU's threads walk an elementwise run whose operands have their neighbours along different axes.
#include <cstddef>
#include <cstdint>

#include <sluice/ndarray/iterate.h>

namespace sluice::detail {

/// Along which axis, not the innermost, an operand that is read has its neighbours; -1 if there is none.
template <int K>
int turned_axis(const StridedPlan<K>& plan) noexcept {
  const int inner = plan.ndim - 1;
  for (int k = 1; k < K; ++k) {
    if (plan.strides[k][inner] == 0 || plan.strides[k][inner] == 1)
      continue;
    for (int axis = 0; axis < inner; ++axis) {
      if (plan.strides[k][axis] == 1)
        return axis;
    }
  }
  return -1;
}

/// Reorders a plan whose result has its neighbours along one axis and an operand, of elements of that many bytes,
/// along another, into tiles: a warp writes and a block reads whole sectors of 32 bytes. The same elements, on up to
/// four axes more. The plan stays as it is where operands agree, extents are no whole tiles, or there are too many
/// axes.
template <int K>
void order_in_tiles(StridedPlan<K>& plan, std::size_t element) noexcept {
  constexpr std::int64_t k_sector = 32, k_lanes = 32, k_warps = 8;
  const int inner = plan.ndim - 1, turned = turned_axis(plan);
  if (turned < 0 || plan.strides[0][inner] != 1 || plan.ndim + 4 > k_max_ndim)
    return;
  const std::int64_t write_lanes = k_sector / static_cast<std::int64_t>(element);
  const std::int64_t read_lanes = k_lanes / write_lanes;
  const std::int64_t read_warps = std::clamp<std::int64_t>(write_lanes / read_lanes, 1, k_warps);
  const std::int64_t write_warps = k_warps / read_warps;
  const std::int64_t write_tile = write_lanes * write_warps, read_tile = read_lanes * read_warps;
  if (plan.extents[inner] % write_tile != 0 || plan.extents[turned] % read_tile != 0)
    return;
  StridedPlan<K> tiled;
  tiled.ndim = 0;
  tiled.size = plan.size;
  const auto add = [&](int axis, std::int64_t extent, std::int64_t step) {
    tiled.extents[tiled.ndim] = extent;
    for (int k = 0; k < K; ++k)
      tiled.strides[k][tiled.ndim] = plan.strides[k][axis] * step;
    ++tiled.ndim;
  };
  for (int axis = 0; axis < inner; ++axis) {
    if (axis != turned)
      add(axis, plan.extents[axis], 1);
  }
  add(turned, plan.extents[turned] / read_tile, read_tile);
  add(inner, plan.extents[inner] / write_tile, write_tile);
  add(inner, write_warps, write_lanes);
  add(turned, read_warps, read_lanes);
  add(turned, read_lanes, 1);
  add(inner, write_lanes, 1);
  plan = tiled;
}

}  // namespace sluice::detail
