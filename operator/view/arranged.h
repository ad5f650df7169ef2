#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <sluice/ndarray/ndarray.h>

// Axes in another order, of another number, of other extents: functions of NumPy's that are made of the views of
// NDArray and of flip(), which record and trace as these do. All but rot90(), fliplr() and flipud(), which copy, give
// views on x's memory. None of them blocks.
namespace sluice {

/// Axis source[i] of x becomes axis destination[i] of the view, the others stay in their order (numpy.moveaxis,
/// torch.movedim, MXNet np.moveaxis). Negative axes count from the back. Throws IndexError for an axis that x does not
/// have, ValueError for one that is named twice and unless there are as many of both.
SLUICE_API NDArray moveaxis(
    const NDArray& x,
    const std::vector<int>& source,
    const std::vector<int>& destination,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
moveaxis(const NDArray& x, int source, int destination, SourceLocation site = SourceLocation::current());

/// All elements as one row (numpy.ravel, torch.ravel, MXNet np.ravel): a view of what lies row by row, otherwise a
/// copy.
SLUICE_API NDArray ravel(const NDArray& x, SourceLocation site = SourceLocation::current());

/// x, or a view with axes of extent 1 in front that has one, two axes (NumPy's and PyTorch's functions of that name).
SLUICE_API NDArray atleast_1d(const NDArray& x, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray atleast_2d(const NDArray& x, SourceLocation site = SourceLocation::current());
/// The same of three: (N,) becomes (1, N, 1), and (M, N) becomes (M, N, 1).
SLUICE_API NDArray atleast_3d(const NDArray& x, SourceLocation site = SourceLocation::current());

/// Views of the shape that all arrays stretch to (numpy.broadcast_arrays, torch.broadcast_tensors), which nobody may
/// write to where they are stretched. Throws ShapeError naming two shapes that do not fit.
SLUICE_API std::vector<NDArray> broadcast_arrays(
    std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());
SLUICE_API std::vector<NDArray> broadcast_arrays(
    std::initializer_list<NDArray> arrays, SourceLocation site = SourceLocation::current());

/// x turned `k` times by 90 degrees in the plane of two axes, from the first one towards the second (numpy.rot90,
/// torch.rot90, MXNet np.rot90); a negative k turns the other way. Throws IndexError for an axis that x does not have,
/// ValueError where both are the same.
SLUICE_API NDArray
rot90(const NDArray& x, int k = 1, std::pair<int, int> axes = {0, 1}, SourceLocation site = SourceLocation::current());
/// flip() of the second axis: left to right (numpy.fliplr, torch.fliplr). Throws IndexError where x has none.
SLUICE_API NDArray fliplr(const NDArray& x, SourceLocation site = SourceLocation::current());
/// flip() of the first axis: up to down (numpy.flipud, torch.flipud). Throws IndexError where x has none.
SLUICE_API NDArray flipud(const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice
