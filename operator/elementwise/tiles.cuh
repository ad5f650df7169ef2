#pragma once

// Elementwise runs on a GPU of which some operand has its neighbours along another axis than what is written: a block
// puts a square of it into shared memory and takes it out along the other axis. Other operands go there too, so that
// all loads are under way at once. Where elements are pairs that begin at whole words, pairs come and go.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <sluice/ndarray/plan_beside.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/pointwise.h>

namespace sluice::detail {

inline constexpr int k_tile_slots = 2;               // operands in shared memory, at most; turned ones first
inline constexpr std::int64_t k_worth_turning = 16;  // shorter axes leave most of a tile idle
inline constexpr std::int64_t k_tile_group = 8;      // tiles side by side where turned operands are read
inline constexpr std::int32_t k_most_blocks = 65536;

/// Elements along each side of a tile: rows of 256 bytes, if they fit, or too few bytes would be under way.
template <class... T>
inline constexpr int k_side_of = ((sizeof(T) <= 2) && ...) && sizeof...(T) == 2 ? 128
                                 : ((sizeof(T) <= 4) && ...)                    ? 64
                                                                                : 32;

/// Whether operands of these types, the result's first, can come and go in pairs: of one type in a tile, all of them.
template <class Out, class First, class... In>
inline constexpr bool k_in_pairs = sizeof(First) == sizeof(Out) && (std::is_same_v<First, In> && ...) &&
                                   sizeof...(In) < k_tile_slots;

/// How blocks walk a plan of K operands, of which operand 0 is written. Lanes go along the axis that is written along,
/// lines along the other; in a turned operand the other way round.
template <int K>
struct TileWalk {
  Geometry<K, std::int32_t> rest;            // the axes beside these two
  Divider<std::int32_t> group, along_tiles;  // of tiles: side by side across, then along,
  Divider<std::int32_t> groups;              // then groups across; the last may have places without a tile
  std::int32_t tiles = 0;
  std::int32_t along = 0, across = 0;  // elements
  std::int32_t by_along[K] = {}, by_across[K] = {};
  bool turned[K] = {};
  std::int8_t slot[K];  // where it is in shared memory; -1: nowhere, it is read where it is needed
  bool pairs = false;   // elements come and go in pairs, all but constants have slots

  explicit TileWalk(const StridedPlan<K>& beside) : rest(beside) { std::fill(slot, slot + K, std::int8_t{-1}); }
  unsigned blocks() const noexcept { return static_cast<unsigned>(std::min(tiles, k_most_blocks)); }
};

/// Whether operand k has its neighbours along `axis` and not along the innermost one.
template <int K>
bool is_turned(const StridedPlan<K>& plan, int k, int axis) noexcept {
  const std::int64_t step = plan.inner_stride(k);
  return plan.strides[k][axis] == 1 && step != 0 && step != 1 && plan.extents[axis] >= k_worth_turning;
}

/// The axis that the first turned operand has its neighbours along; -1: there is none.
template <int K>
int axis_of_turned(const StridedPlan<K>& plan) noexcept {
  for (int k = 1; k < K && plan.inner() >= k_worth_turning; ++k) {
    for (int axis = 0; axis + 1 < plan.ndim; ++axis) {
      if (is_turned(plan, k, axis))
        return axis;
    }
  }
  return -1;
}

/// Turned operands get the places in shared memory first, then others.
template <int K>
void give_slots(TileWalk<K>& walk, const PointwiseArgs<K>& args, int turned_axis) noexcept {
  std::int8_t slot = 0;
  for (int k = 1; k < K; ++k) {
    if (slot < k_tile_slots && !args.is_constant[k] && is_turned(args.plan, k, turned_axis)) {
      walk.turned[k] = true;
      walk.slot[k] = slot++;
    }
  }
  for (int k = 1; k < K; ++k) {
    if (slot < k_tile_slots && !args.is_constant[k] && !walk.turned[k])
      walk.slot[k] = slot++;
  }
}

/// Whether pairs of operand k are whole words, along the axis that it has its neighbours on.
template <int K>
bool in_words(const PointwiseArgs<K>& args, int k, int axis) noexcept {
  if (args.plan.strides[k][axis] != 1 ||
      reinterpret_cast<std::uintptr_t>(args.data[k]) % (2 * size_of(args.dtypes[k])) != 0)
    return false;
  for (int other = 0; other < args.plan.ndim; ++other) {
    if (other != axis && args.plan.strides[k][other] % 2 != 0)
      return false;
  }
  return true;
}

/// Whether a tile's elements can come and go in pairs: all operands are in shared memory and whole words, or constants.
template <int K>
bool go_in_pairs(const PointwiseArgs<K>& args, const TileWalk<K>& walk, int turned_axis) noexcept {
  const int inner = args.plan.ndim - 1;
  if (walk.along % 2 != 0 || walk.across % 2 != 0)
    return false;
  for (int k = 0; k < K; ++k) {
    if (!args.is_constant[k] && !in_words(args, k, walk.turned[k] ? turned_axis : inner))
      return false;
  }
  return true;
}

/// Nothing where no operand is turned, or offsets behind the last tile would leave 32 bits.
template <int K>
std::optional<TileWalk<K>> walk_in_tiles(const PointwiseArgs<K>& args, int side, bool can_pair) noexcept {
  const StridedPlan<K>& plan = args.plan;
  const int axis = axis_of_turned(plan), inner = plan.ndim - 1;
  if (axis < 0)
    return {};
  const std::int64_t along_tiles = (plan.inner() + side - 1) / side;
  const std::int64_t across_tiles = (plan.extents[axis] + side - 1) / side;
  // Tiles that run at a time then read long pieces of turned operands too.
  const std::int64_t group = std::min(across_tiles, k_tile_group), groups = (across_tiles + group - 1) / group;
  StridedPlan<K> filled = plan;
  filled.extents[inner] = along_tiles * side;
  filled.extents[axis] = groups * group * side;
  filled.size = plan.size / plan.inner() / plan.extents[axis] * filled.extents[inner] * filled.extents[axis];
  if (!fits_32_bits(filled))
    return {};
  TileWalk<K> walk(plan_beside(plan, axis));
  walk.group = Divider<std::int32_t>(group);
  walk.along_tiles = Divider<std::int32_t>(along_tiles);
  walk.groups = Divider<std::int32_t>(groups);
  walk.tiles = walk.rest.size * static_cast<std::int32_t>(group * groups * along_tiles);
  walk.along = static_cast<std::int32_t>(plan.inner());
  walk.across = static_cast<std::int32_t>(plan.extents[axis]);
  for (int k = 0; k < K; ++k) {
    walk.by_along[k] = static_cast<std::int32_t>(plan.strides[k][inner]);
    walk.by_across[k] = static_cast<std::int32_t>(plan.strides[k][axis]);
  }
  give_slots(walk, args, axis);
  walk.pairs = can_pair && go_in_pairs(args, walk, axis);
  return walk;
}

}  // namespace sluice::detail
