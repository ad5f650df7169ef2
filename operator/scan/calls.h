#pragma once

#include <sluice/ndarray/ndarray.h>

// Scans that gradients of other families take.
namespace sluice::detail {

/// The gradient of entries taken at `places`, of its shape, where equal ones stand side by side along the axis: an
/// entry gets the sum of dy at its places.
NDArray add_runs(const NDArray& places, const NDArray& dy, int axis);

}  // namespace sluice::detail
