#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// Sums of x so far along the axis, its own entry included, in the shape of x; without an axis of all elements as one
/// row, of one axis. Rules of numpy.cumsum (torch.cumsum, MXNet's np.cumsum): sums of integers and bool are int64.
/// float16 and bfloat16 add up in float. `reverse`: sums of what is left, from the end. Throws IndexError for an axis
/// that x does not have. Same bits on every run; does not block.
SLUICE_API NDArray cumsum(
    const NDArray& x,
    std::optional<int> axis = {},
    bool reverse = false,
    SourceLocation site = SourceLocation::current());
/// Products so far, as numpy.cumprod and torch.cumprod; otherwise as cumsum(). The gradient divides by nothing: it is
/// right where x is 0. A GPU multiplies up neighbours before it knows what stands in front of them: where their product
/// does not fit, what comes behind a 0 is NaN there.
SLUICE_API NDArray cumprod(
    const NDArray& x,
    std::optional<int> axis = {},
    bool reverse = false,
    SourceLocation site = SourceLocation::current());

/// cumsum() and cumprod() with 0, or 1, in place of NaNs (numpy.nancumsum, nancumprod). The gradient of a NaN is 0.
SLUICE_API NDArray nancumsum(
    const NDArray& x,
    std::optional<int> axis = {},
    bool reverse = false,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nancumprod(
    const NDArray& x,
    std::optional<int> axis = {},
    bool reverse = false,
    SourceLocation site = SourceLocation::current());

/// What cummax() and cummin() give: values of x's type, and which entry of the axis each comes from (int64).
struct Extremes {
  NDArray values, indices;
};

/// The largest entry so far along the axis and where it stands, as torch.cummax: of equals the last one. A NaN is
/// larger than any number and stays, as in numpy.maximum.accumulate. The gradient goes to that entry. Throws
/// IndexError for an axis that x does not have. Does not block.
SLUICE_API Extremes cummax(const NDArray& x, int axis, SourceLocation site = SourceLocation::current());
/// The smallest entry so far, as torch.cummin; otherwise as cummax(), a NaN is smaller than any number.
SLUICE_API Extremes cummin(const NDArray& x, int axis, SourceLocation site = SourceLocation::current());

/// y[i] = b[i] + a[i] * y[i - 1] along the axis, y[-1] = 0; `reverse`: y[i] = b[i] + a[i] * y[i + 1]. a and b are of
/// one shape and are promoted to one floating type. What a GPU, or several pieces of a long row, multiply up of `a`
/// must not overflow. NumPy has no such function; it is jax.lax.associative_scan of affine maps, and what gradients of
/// products so far are made of. Throws ShapeError, DTypeError, IndexError. Same bits on every run; does not block.
SLUICE_API NDArray linear_recurrence(
    const NDArray& a,
    const NDArray& b,
    int axis,
    bool reverse = false,
    SourceLocation site = SourceLocation::current());

/// Differences of neighbours along the axis, x[i + 1] - x[i], `n` times over: each takes one entry from the axis, none
/// are left where it is shorter. Rules of numpy.diff (torch.diff, MXNet's np.diff): differences of bool say whether the
/// two differ; those of unsigned integers wrap. Throws ValueError for a negative n, IndexError for an axis that x does
/// not have. Does not block.
SLUICE_API NDArray
diff(const NDArray& x, std::int64_t n = 1, int axis = -1, SourceLocation site = SourceLocation::current());

}  // namespace sluice
