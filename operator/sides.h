#pragma once

#include <cstdint>

#include <sluice/engine/error.h>
#include <sluice/ndarray/shape.h>

// Padding of images: as much on both sides of an axis, or for each side its own.
namespace sluice::detail {

/// Elements before and behind height (0) and width (1).
struct Sides {
  std::int64_t begin[2] = {};
  std::int64_t end[2] = {};
};

/// Of (height, width), each on both sides, or of (top, left, bottom, right). Throws ValueError naming `op`.
inline Sides sides_of(const char* op, const Shape& pad) {
  bool good = pad.ndim() == 2 || pad.ndim() == 4;
  for (const std::int64_t elements : pad)
    good = good && elements >= 0;
  require<ValueError>(good, [&] {
    return message(op, ": pad must be (height, width) or (top, left, bottom, right), numbers >= 0, not ", pad);
  });
  const int behind = pad.ndim() - 2;
  return {{pad[0], pad[1]}, {pad[behind], pad[behind + 1]}};
}

}  // namespace sluice::detail
