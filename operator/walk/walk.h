#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// What stands around an array: a number, its outermost entries, or itself, mirrored at these.
enum class PadMode : std::uint8_t { constant, edge, reflect };

/// x with entries before and behind it, a pair of numbers for each axis; one pair is for all axes. Rules of numpy.pad:
/// `value` is for PadMode::constant, a mirror image longer than x goes to and fro. Throws ShapeError for another number
/// of pairs, and for an axis of 2^63 entries or more, ValueError for negative ones, or for edges and mirror images of
/// an axis of extent 0.
SLUICE_API NDArray
pad(const NDArray& x,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& width,
    PadMode mode = PadMode::constant,
    Scalar value = 0,
    SourceLocation site = SourceLocation::current());

/// x moved by `shift` entries along the axis; what leaves at the end comes in at the front. A negative shift goes the
/// other way. Without an axis as one row of all elements, in the shape of x.
SLUICE_API NDArray roll(
    const NDArray& x,
    std::int64_t shift,
    std::optional<int> axis = {},
    SourceLocation site = SourceLocation::current());
/// Along several axes, one after the other. Throws ValueError unless there are as many shifts as axes.
SLUICE_API NDArray roll(
    const NDArray& x,
    const std::vector<std::int64_t>& shifts,
    const std::vector<int>& axes,
    SourceLocation site = SourceLocation::current());

/// The last entries of each of these axes first; of all where none is named.
SLUICE_API NDArray
flip(const NDArray& x, const std::vector<int>& axes = {}, SourceLocation site = SourceLocation::current());
/// Along one axis. Braces are never that: flip(x, {}) is of all axes.
NDArray flip(const NDArray& x, std::integral auto axis, SourceLocation site = SourceLocation::current()) {
  return flip(x, std::vector<int>{static_cast<int>(axis)}, site);
}

/// x several times along its last axes, as numpy.tile: missing axes of x, or missing numbers, are 1 in front. Throws
/// ValueError for negative numbers, ShapeError for an axis of 2^63 entries or more.
SLUICE_API NDArray
tile(const NDArray& x, const std::vector<std::int64_t>& repeats, SourceLocation site = SourceLocation::current());

/// Each entry of the axis so often; without an axis each element of x, as one row. Throws ValueError for a negative
/// number, ShapeError for an axis of 2^63 entries or more.
SLUICE_API NDArray repeat(
    const NDArray& x,
    std::int64_t repeats,
    std::optional<int> axis = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
