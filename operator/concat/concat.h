#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// The arrays one after the other along `axis`; their other extents agree. Types are promoted to a common one.
/// Throws ValueError for no arrays, ShapeError naming the first array that does not fit.
SLUICE_API NDArray
concat(std::span<const NDArray> arrays, int axis = 0, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
concat(std::initializer_list<NDArray> arrays, int axis = 0, SourceLocation site = SourceLocation::current());
/// The same converted to `dtype` on the way (numpy.concatenate's dtype). Under amp::autocast() too.
SLUICE_API NDArray
concat(std::span<const NDArray> arrays, int axis, DType dtype, SourceLocation site = SourceLocation::current());

/// Arrays of one shape along a new axis `axis` of the result.
SLUICE_API NDArray
stack(std::span<const NDArray> arrays, int axis = 0, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
stack(std::initializer_list<NDArray> arrays, int axis = 0, SourceLocation site = SourceLocation::current());

/// `parts` equal slices of x along `axis`: views, no copies. Throws ValueError unless the extent divides evenly.
SLUICE_API std::vector<NDArray> split(
    const NDArray& x, std::int64_t parts, int axis = 0, SourceLocation site = SourceLocation::current());
/// Slices [0, indices[0]), [indices[0], indices[1]), ... of x along `axis`: views. Rules of numpy.split.
SLUICE_API std::vector<NDArray> split(
    const NDArray& x,
    const std::vector<std::int64_t>& indices,
    int axis = 0,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
