#pragma once

#include <sluice/ndarray/ndarray.h>

// What has as many entries as values say. These functions wait for x: they look at how many there are before they
// return. While a program is traced there are no values to look at, and they throw ValueError.
namespace sluice {

/// Where x is not 0 (a NaN is not), as numpy.argwhere and torch.nonzero: an index (int64) a row, row by row of x; its
/// columns are x's axes. Waits for x. Throws ValueError while a program is traced.
SLUICE_API NDArray nonzero(const NDArray& x, SourceLocation site = SourceLocation::current());

/// The entries of x where `mask` (bool) is true, as x[mask] of NumPy and PyTorch, MXNet's boolean_mask: mask has the
/// extents of x's first axes, which become one. The gradient is 0 where the mask is false. Waits for the mask. Throws
/// DTypeError for another type of mask, ShapeError for another shape, ValueError while a program is traced.
SLUICE_API NDArray boolean_mask(const NDArray& x, const NDArray& mask, SourceLocation site = SourceLocation::current());

/// The different values of x, ascending, as numpy.unique: NaNs are one value, the last one, -0 and 0 are one. Waits for
/// x. Throws ValueError while a program is traced.
SLUICE_API NDArray unique(const NDArray& x, SourceLocation site = SourceLocation::current());

/// Values as unique() gives them; beside each where in x, read row by row, it stands first and how often it stands
/// there; in the shape of x, which of the values stands there. All three int64.
struct Uniques {
  NDArray values, indices, inverse, counts;
};

/// As numpy.unique with all that it can return (numpy.unique_all takes NaNs for different ones). Waits, as unique().
SLUICE_API Uniques unique_all(const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice
