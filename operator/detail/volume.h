#pragma once

#include <sluice/operator/sides.h>

// Operators of three axes, (N, C, D, H, W), as those of planes and of depths.
namespace sluice::detail {

/// Three numbers from `least` to k_most_of_window. Throws ValueError naming `op` and `name`.
inline void check_triple(const char* op, const Shape& values, std::int64_t least, const char* name) {
  bool good = values.ndim() == 3;
  for (const std::int64_t value : values)
    good = good && value >= least && value <= k_most_of_window;
  require<ValueError>(
      good, [&] { return message(op, ": ", name, " must be three numbers >= ", least, " and < 2^31, not ", values); });
}

/// Padding of depths, in front and behind, and of planes, (top, left, bottom, right).
struct VolumePad {
  Shape depth, plane;
};

/// Of (depth, height, width), each on both sides, or (front, top, left, back, bottom, right). Throws ValueError naming
/// `op`.
inline VolumePad pad_of_volume(const char* op, const Shape& pad) {
  bool good = pad.ndim() == 3 || pad.ndim() == 6;
  for (const std::int64_t elements : pad)
    good = good && elements >= 0 && elements <= k_most_of_window;
  require<ValueError>(good, [&] {
    return message(
        op,
        ": pad must be (depth, height, width) or (front, top, left, back, bottom, right), numbers >= 0 and < 2^31, "
        "not ",
        pad);
  });
  const int behind = pad.ndim() - 3;
  return {{pad[0], pad[behind]}, {pad[1], pad[2], pad[behind + 1], pad[behind + 2]}};
}

/// The last two of three numbers.
inline Shape of_plane(const Shape& triple) {
  return {triple[1], triple[2]};
}

/// A shape of five axes without the one of depths. Throws ShapeError naming `op` and the operand.
inline Shape plane_shape(const char* op, const char* operand, Shape shape) {
  require<ShapeError>(shape.ndim() == 5, [&] {
    return message(op, ": ", operand, " must have five axes, depth on its third, not be ", shape);
  });
  shape.erase(2);
  return shape;
}

}  // namespace sluice::detail
