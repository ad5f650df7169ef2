#pragma once

#include <cstdint>
#include <limits>

#include <sluice/ndarray/shape.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

/// What numbers name: entries of one axis; of several axes together, the first axis of the numbers being which (tuple);
/// of one axis, another for each place along the others (along).
enum class IndexKind : std::uint8_t { axis, tuple, along };

/// a / b of numbers that are not negative. Most are short enough for the cheaper division, which `narrow` says.
SLUICE_HD inline std::int64_t quotient(std::int64_t a, std::int64_t b, bool narrow) noexcept {
  return narrow ? static_cast<std::int64_t>(static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b)) : a / b;
}

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

  /// Of one axis: what its i-th number, which is `index`, names.
  SLUICE_HD Named named(std::int64_t i, std::int64_t index) const noexcept {
    const std::int64_t place = resolve_index(index, extents[0], mode);
    return place < 0 ? Named{-1, index} : Named{among_all(i, place)};
  }
  SLUICE_HD Named at(std::int64_t i) const noexcept {
    std::int64_t entry = 0;
    for (int axis = 0; axis < axes; ++axis) {
      const std::int64_t index = load_index(data, dtype, axis * count + i);
      const std::int64_t place = resolve_index(index, extents[axis], mode);
      if (place < 0)
        return {-1, index, axis};
      entry = entry * extents[axis] + place;
    }
    return {among_all(i, entry)};
  }

 private:
  // Along an axis the i-th number means one of its own slice.
  SLUICE_HD std::int64_t among_all(std::int64_t i, std::int64_t entry) const noexcept {
    if (inner == 0)
      return entry;
    const bool narrow = count <= std::numeric_limits<std::uint32_t>::max();  // as are all parts of it
    const std::int64_t slice = quotient(i, inner, narrow);
    return (quotient(slice, entries, narrow) * extents[0] + entry) * inner + (i - slice * inner);
  }
};

}  // namespace sluice::detail
