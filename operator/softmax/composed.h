#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// softmax(-x) along `axis` (PyTorch softmin). Throws as softmax().
SLUICE_API NDArray softmin(const NDArray& x, int axis = -1, SourceLocation site = SourceLocation::current());

/// The first half of x along `axis`, times the sigmoid of the second half (PyTorch glu). Throws DTypeError for other
/// types than floating ones, IndexError for an axis out of range, ShapeError for an odd extent.
SLUICE_API NDArray glu(const NDArray& x, int axis = -1, SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_softmin, k_glu;
}  // namespace detail

}  // namespace sluice
