#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Scans that gradients of other families take, and those that are made of others.
namespace sluice::detail {

/// The gradient of entries taken at `places`, of its shape, where equal ones stand side by side along the axis: an
/// entry gets the sum of dy at its places.
NDArray add_runs(const NDArray& places, const NDArray& dy, int axis);

/// Scans without NaNs, for the list of the family.
extern const Operator k_nancumsum, k_nancumprod;

}  // namespace sluice::detail
