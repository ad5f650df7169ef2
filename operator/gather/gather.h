#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// What to do with an index i of an axis of extent n. `raise`: -n <= i < n, negative ones count from the back, others
/// are an IndexError at the wait. `clip`: below 0 becomes 0, from n on becomes n - 1. `wrap`: i modulo n.
/// (numpy.take's mode.)
enum class IndexMode : std::uint8_t { raise, clip, wrap };

/// Slices of x along `axis` at `indices` (any integer type, any shape): shape x[:axis] + indices.shape + x[axis+1:].
/// The gradient adds up slices that were taken more than once, in a fixed order. Any type of x. Throws DTypeError
/// for indices that are not integers, IndexError for a wrong axis, ValueError for taking from an empty axis.
SLUICE_API NDArray take(
    const NDArray& x,
    const NDArray& indices,
    int axis = 0,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());

/// 1 where the last axis (extent `depth`) equals the index, 0 elsewhere: shape indices.shape + (depth,). An index
/// outside [0, depth) is an IndexError at the wait. Not differentiable. Throws ValueError unless depth > 0.
SLUICE_API NDArray one_hot(
    const NDArray& indices, std::int64_t depth, DType dtype = float32, SourceLocation site = SourceLocation::current());

/// One element of each row of x along `axis`: y[...] = x[..., index[...], ...]. `index` (any integer type) has x's
/// shape without `axis`, and so has the result (MXNet's pick).
SLUICE_API NDArray pick(
    const NDArray& x,
    const NDArray& index,
    int axis = -1,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
