#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

// One axis of an image, mixed of more than two neighbours.
namespace sluice::detail {

struct ResizedAxis {
  int axis = 0;
  std::int64_t in = 1, out = 1;
  bool corners = false;
};

/// Of four neighbours, weighted by a cubic spline (a = -0.75); places beyond the image are its outermost pixels.
NDArray mixed_by_cubic(const NDArray& x, const ResizedAxis& of, SourceLocation site);
/// Of all pixels below one of the result, weighted by a triangle or a cubic spline (a = -0.5): a product with a matrix.
NDArray mixed_by_filter(const NDArray& x, const ResizedAxis& of, bool cubic, SourceLocation site);

}  // namespace sluice::detail
