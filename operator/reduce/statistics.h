#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

// Reductions of NumPy's and PyTorch's that are made of others, of products and of elementwise operators: operators by
// name too, recorded, traced and fused as their parts. float16 and bfloat16 are computed with in float32; integers and
// bool give float32, unless something else is said. None of them blocks.
namespace sluice {

/// The largest element less the smallest one (numpy.ptp); axes, errors and gradients as of max() and min(). Integers
/// keep their type, whose difference need not fit, bool gives int64.
SLUICE_API NDArray
ptp(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());

/// Of cov().
struct CovOptions {
  bool rowvar = true;     // of two axes: variables are rows and observations columns; false: the other way round
  std::int64_t ddof = 1;  // what the divisor is less than the number of observations
};

/// The covariances of n variables, (n, n): the mean products of their distances from their means (numpy.cov,
/// torch.cov). x has two axes, or one of a single variable, which gives one number without axes; (1, 1) stays what it
/// is, which NumPy and PyTorch drop. Where nothing is left to divide by they are NaN or infinite. Throws ShapeError for
/// more axes.
SLUICE_API NDArray
cov(const NDArray& x, const CovOptions& options = {}, SourceLocation site = SourceLocation::current());
/// The same divided by the standard deviations of both variables, within [-1, 1] (numpy.corrcoef, torch.corrcoef); NaN
/// where one is 0.
SLUICE_API NDArray corrcoef(const NDArray& x, bool rowvar = true, SourceLocation site = SourceLocation::current());

/// The cosine of the angle between a and b along an axis of what they broadcast to: their product, divided by their
/// norms, of which none counts as less than `eps` (PyTorch cosine_similarity). Throws ShapeError, IndexError,
/// ValueError for an eps that is not above 0.
SLUICE_API NDArray cosine_similarity(
    const NDArray& a,
    const NDArray& b,
    int axis = 1,
    double eps = 1e-8,
    SourceLocation site = SourceLocation::current());

/// The integral along the axis of what runs straight from entry to entry, `dx` apart (numpy.trapezoid,
/// torch.trapezoid); of fewer than two entries 0. Throws IndexError for an axis that y does not have.
SLUICE_API NDArray
trapezoid(const NDArray& y, double dx = 1, int axis = -1, SourceLocation site = SourceLocation::current());
/// The same of entries that stand at x: of one axis, or of y's shape. Throws ShapeError for another shape.
SLUICE_API NDArray
trapezoid(const NDArray& y, const NDArray& x, int axis = -1, SourceLocation site = SourceLocation::current());

}  // namespace sluice
