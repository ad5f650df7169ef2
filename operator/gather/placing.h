#pragma once

#include <cstdint>

#include <sluice/ndarray/shape.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

/// What numbers name: entries of one axis; of several axes together, the first axis of the numbers being which (tuple);
/// of one axis, another for each place along the others (along).
enum class IndexKind : std::uint8_t { axis, tuple, along };

/// Where numbers point to. With `tuple` entries are counted row by row over their axes, with `along` over all axes.
struct Placing {
  const void* data = nullptr;
  DType dtype = DType::int64;
  IndexMode mode = IndexMode::raise;
  int axes = 1;                           // that one entry is of
  std::int64_t count = 0;                 // entries that are named
  std::int64_t extents[k_max_ndim] = {};  // of those axes
  std::int64_t entries = 0, inner = 0;    // along: numbers along the axis, elements behind it; 0 otherwise

  /// The entry, or -1 where `index` names none of axis `axis`, of those.
  struct Named {
    std::int64_t entry;
    std::int64_t index = 0;
    int axis = 0;
  };

  SLUICE_HD Named at(std::int64_t i) const noexcept {
    std::int64_t entry = 0;
    for (int axis = 0; axis < axes; ++axis) {
      const std::int64_t index = load_index(data, dtype, axis * count + i);
      const std::int64_t place = resolve_index(index, extents[axis], mode);
      if (place < 0)
        return {-1, index, axis};
      entry = entry * extents[axis] + place;
    }
    if (inner == 0)
      return {entry};
    const std::int64_t slice = i / inner;
    return {(slice / entries * extents[0] + entry) * inner + (i - slice * inner)};
  }
};

}  // namespace sluice::detail
