#pragma once

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/offer.h>

namespace sluice::detail {

/// The shape of x with -1 for its first extent, for compositions whose calls depend on the other extents. A trace sees
/// that these were asked for, and that the size of the batch was not: it may then serve for batches of all sizes.
inline Shape extents_beside_batch(const NDArray& x) {
  Shape shape = unseen_shape(x);
  if (shape.empty())
    return shape;
  if (sink_here() != nullptr)
    shape = x.slice(0, 0, 1).shape();
  shape[0] = -1;
  return shape;
}

}  // namespace sluice::detail
