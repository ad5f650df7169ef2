#pragma once

#include <sluice/operator/sides.h>

// Operators of one axis, (N, C, W), as those of images of one row.
namespace sluice::detail {

/// Padding of both sides, or of (left, right), as images take it. Throws ValueError naming `op`.
inline Shape pad_of_row(const char* op, const Shape& pad) {
  bool good = pad.ndim() == 1 || pad.ndim() == 2;
  for (const std::int64_t elements : pad)
    good = good && elements >= 0 && elements <= k_most_of_window;
  require<ValueError>(good, [&] {
    return message(op, ": pad must be one number or (left, right), numbers >= 0 and < 2^31, not ", pad);
  });
  return {0, pad[0], 0, pad[pad.ndim() - 1]};
}

/// (N, C, W) as (N, C, 1, W). Throws ShapeError naming `op` and the operand.
inline Shape row_shape(const char* op, const char* operand, Shape shape) {
  require<ShapeError>(shape.ndim() == 3, [&] {
    return message(op, ": ", operand, " must have three axes, channels on its second, not be ", shape);
  });
  shape.insert(2, 1);
  return shape;
}

}  // namespace sluice::detail
