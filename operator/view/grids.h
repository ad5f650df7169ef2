#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/ndarray.h>

// Arrays of a form: what NumPy makes of ranges, and parts of matrices; operators by name too. None of them blocks.
// full_like(), arange() and what else makes arrays: ndarray/create.h.
namespace sluice {

/// 1 on the diagonal `k` (above the main one where it is positive), 0 elsewhere: rows x columns, as many as rows unless
/// said otherwise (numpy.eye). Throws ShapeError for a negative extent.
SLUICE_API NDArray
eye(std::int64_t rows,
    std::optional<std::int64_t> columns = {},
    std::int64_t k = 0,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// `count` numbers at equal distances from start to stop, both among them (numpy.linspace): reckoned in float64,
/// integers rounded down. Throws ShapeError for a negative count, ValueError for bounds that are not finite.
SLUICE_API NDArray linspace(
    double start,
    double stop,
    std::int64_t count = 50,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// x with 0 above the diagonal `k` of its last two axes (numpy.tril), and below it (numpy.triu). The gradient is 0
/// where the result is. Throw ShapeError for fewer axes.
SLUICE_API NDArray tril(const NDArray& x, std::int64_t k = 0, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray triu(const NDArray& x, std::int64_t k = 0, SourceLocation site = SourceLocation::current());

/// Which axes of a grid the first two arrays lie along: the second and the first one (xy), or as all others in turn
/// (ij).
enum class GridOrder : std::uint8_t { xy, ij };
/// Coordinates of a grid: each array, of one axis or none, stretched along those of all the others, as views, which
/// nobody can write; a copy of one that there is nothing to stretch along (numpy.meshgrid copies all). Throws
/// ShapeError for more axes, ValueError for more arrays than an array has axes.
SLUICE_API std::vector<NDArray> meshgrid(
    const std::vector<NDArray>& arrays,
    GridOrder order = GridOrder::xy,
    SourceLocation site = SourceLocation::current());

namespace detail {
/// The numbers at `at` of `count` equal steps from low to high, finite ones, of which the whole range need not be a
/// number; at is float64.
NDArray even_steps(const NDArray& at, double low, double high, double count, SourceLocation site);
}  // namespace detail

}  // namespace sluice
