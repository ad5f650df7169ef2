#pragma once

#include <sluice/ndarray/ndarray.h>

// Sequences of several lengths in one array (MXNet's operators of these names): x is (steps, batch, ..), or (batch,
// steps, ..) with axis 1, and `lengths`, of any integer type, has an entry for each of the batch. Any type of x. All
// throw ShapeError for other shapes, DTypeError for other lengths, IndexError for another axis. None of them blocks.
namespace sluice {

/// x with `value` from step lengths[i] on; a length beyond the last step leaves all, one below 0 none. The gradient is
/// 0 there. Throws ValueError for a number that an integer type does not hold.
SLUICE_API NDArray sequence_mask(
    const NDArray& x,
    const NDArray& lengths,
    Scalar value = 0,
    int axis = 0,
    SourceLocation site = SourceLocation::current());
/// The last step of each sequence, lengths[i] - 1: x without the axis of steps. A length outside 1 .. steps is an
/// IndexError at the wait.
SLUICE_API NDArray
sequence_last(const NDArray& x, const NDArray& lengths, int axis = 0, SourceLocation site = SourceLocation::current());
/// The first lengths[i] steps the other way round, the others where they are. A length outside 0 .. steps is an
/// IndexError at the wait.
SLUICE_API NDArray sequence_reverse(
    const NDArray& x, const NDArray& lengths, int axis = 0, SourceLocation site = SourceLocation::current());

}  // namespace sluice
