#pragma once

#include <optional>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/order/select.h>

// What is made of searchsorted(), and NumPy's names of nonzero().
namespace sluice {

/// Which elements of x are among those of `values`, of any shape (numpy.isin, torch.isin): bool, in the shape of x;
/// with `invert` which are not. Both are promoted to one type. A NaN is among nothing. Not differentiable. Does not
/// block.
SLUICE_API NDArray
isin(const NDArray& x, const NDArray& values, bool invert = false, SourceLocation site = SourceLocation::current());

/// Which of the bins between ascending edges each element of x lies in (numpy.digitize; torch.bucketize, whose `right`
/// means the opposite): 0 in front of the first edge, as many as edges behind the last one (int64). A bin holds its
/// lower edge, or with `right` its upper one. Both are promoted to one type; a NaN is larger than any number. Not
/// differentiable. Throws ShapeError unless edges have one axis. What does not ascend gives places that say nothing.
SLUICE_API NDArray
digitize(const NDArray& x, const NDArray& edges, bool right = false, SourceLocation site = SourceLocation::current());

/// What interp() gives in front of the first place and behind the last one; none: the number at that place.
struct InterpOptions {
  std::optional<double> left = {};
  std::optional<double> right = {};
};

/// At x, of any shape, the height of what runs straight between numbers `fp` at places `xp`, which ascend
/// (numpy.interp; PyTorch has none): both have one axis. A NaN gives NaN. Types are promoted to a floating one, half
/// types are computed with in float32. Gradients go to x, xp and fp. What does not ascend gives numbers that say
/// nothing. Throws ShapeError unless xp and fp are of one shape (n,), ValueError for an n of 0. Does not block.
SLUICE_API NDArray interp(
    const NDArray& x,
    const NDArray& xp,
    const NDArray& fp,
    const InterpOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// nonzero() by NumPy's name: an index a row. Waits for x. Throws as nonzero().
SLUICE_API NDArray argwhere(const NDArray& x, SourceLocation site = SourceLocation::current());
/// Where x, read row by row, is not 0 (numpy.flatnonzero): places, of one axis. Waits for x. Throws as nonzero().
SLUICE_API NDArray flatnonzero(const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice
