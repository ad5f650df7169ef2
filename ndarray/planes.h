#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/iterate.h>

namespace sluice::detail {

inline constexpr std::int64_t k_most_planes = 7, k_least_of_plane = 16;  // elements of a plane that are worth it

/// A few planes of which a copy brings elements side by side, or the other way round: along `along` lie the elements of
/// a plane, along `across` those of one place, without gaps on one of the two sides.
struct Planes {
  int along, across;
  bool together;  // written, else read, side by side
};

/// Those of a copy, if it is one of them: strides[0] are where it writes.
inline std::optional<Planes> find_planes(const StridedPlan<2>& plan) noexcept {
  const int inner = plan.ndim - 1;
  const auto fits = [&](int along, int across, int side) {
    const std::int64_t count = plan.extents[across];
    return count >= 2 && count <= k_most_planes && plan.extents[along] >= k_least_of_plane &&
           plan.strides[side][across] == 1 && plan.strides[side][along] == count && plan.strides[1 - side][along] == 1;
  };
  for (int axis = 0; axis < inner; ++axis) {
    if (fits(axis, inner, 0))
      return Planes{axis, inner, true};
    if (fits(inner, axis, 1))
      return Planes{inner, axis, false};
  }
  return std::nullopt;
}

}  // namespace sluice::detail
