#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// Entries of an axis in an order: their values, of x's type, and where they stood (int64).
struct Ordered {
  NDArray values, indices;
};

/// x with the entries of the axis in order, the smallest first or, `descending`, the largest. Rules of numpy.sort
/// (torch.sort, MXNet's sort): a NaN is larger than any number, so it comes last or, descending, first; which of -0
/// and 0 stands first is not said. The gradient goes back to where entries stood. Throws IndexError for an axis that x
/// does not have. Same bits on every run; does not block.
SLUICE_API NDArray
sort(const NDArray& x, int axis = -1, bool descending = false, SourceLocation site = SourceLocation::current());

/// Where the entries of sort() stand in x (int64), as numpy.argsort (torch.argsort, MXNet's argsort): equal ones in the
/// order in which they stood, also descending, as torch.sort with stable=True; -0 equals 0, and a NaN any other.
/// Not differentiable. Throws IndexError as sort(), UnsupportedError for 2^32 entries or more. Does not block.
SLUICE_API NDArray
argsort(const NDArray& x, int axis = -1, bool descending = false, SourceLocation site = SourceLocation::current());

/// sort() and argsort() at once, as torch.sort: values are those at the indices, bit by bit.
SLUICE_API Ordered sort_with_indices(
    const NDArray& x, int axis = -1, bool descending = false, SourceLocation site = SourceLocation::current());

/// The k largest entries of the axis (or smallest), and where they stand, as torch.topk and, for its ret_typ "both",
/// MXNet's topk; k takes the place of the axis' extent. The best comes first, whatever torch's `sorted` says; of equals
/// the first ones are taken, in their order; a NaN is larger than any number. The gradient goes back to where they
/// stood. Throws ValueError unless 0 <= k <= the extent, otherwise as argsort(). Does not block.
SLUICE_API Ordered topk(
    const NDArray& x,
    std::int64_t k,
    int axis = -1,
    bool largest = true,
    SourceLocation site = SourceLocation::current());
/// In the shape of x: true for the entries that topk() gives, as MXNet's topk for ret_typ "mask".
SLUICE_API NDArray topk_mask(
    const NDArray& x,
    std::int64_t k,
    int axis = -1,
    bool largest = true,
    SourceLocation site = SourceLocation::current());

/// Where values would have to stand among `sorted` entries, which ascend along the last axis, so that these stay in
/// order (int64): in front of equal ones or, `right`, behind them. `sorted` has one axis, for values of any shape, or
/// as many as `values` and the same extents but for the last, as torch.searchsorted; of one axis it is
/// numpy.searchsorted. Both are promoted to one type; a NaN is larger than any number. Not differentiable. Throws
/// ShapeError for other shapes. What is not sorted gives places that say nothing. Does not block.
SLUICE_API NDArray searchsorted(
    const NDArray& sorted, const NDArray& values, bool right = false, SourceLocation site = SourceLocation::current());

}  // namespace sluice
