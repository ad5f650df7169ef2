#pragma once

#include <cstdint>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/ndarray/shape.h>

// Padding of images: as much on both sides of an axis, or for each side its own.
namespace sluice::detail {

/// Elements before and behind height (0) and width (1).
struct Sides {
  std::int64_t begin[2] = {};
  std::int64_t end[2] = {};
};

/// What no number of a window is beyond, so that sums, and products with an extent, are counted in 64 bits.
inline constexpr std::int64_t k_most_of_window = std::numeric_limits<std::int32_t>::max();

/// A pair of numbers from `least` to k_most_of_window. Throws ValueError naming `op` and `name`.
inline void check_pair(const char* op, const Shape& values, std::int64_t least, const char* name) {
  bool good = values.ndim() == 2;
  for (const std::int64_t value : values)
    good = good && value >= least && value <= k_most_of_window;
  require<ValueError>(good, [&] {
    return message(op, ": ", name, " must be a pair of numbers >= ", least, " and < 2^31, not ", values);
  });
}

/// Of (height, width), each on both sides, or of (top, left, bottom, right). Throws ValueError naming `op`.
inline Sides sides_of(const char* op, const Shape& pad) {
  bool good = pad.ndim() == 2 || pad.ndim() == 4;
  for (const std::int64_t elements : pad)
    good = good && elements >= 0 && elements <= k_most_of_window;
  require<ValueError>(good, [&] {
    return message(
        op, ": pad must be (height, width) or (top, left, bottom, right), numbers >= 0 and < 2^31, not ", pad);
  });
  const int behind = pad.ndim() - 2;
  return {{pad[0], pad[1]}, {pad[behind], pad[behind + 1]}};
}

}  // namespace sluice::detail
