#pragma once

#include <vector>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/gather/placing.h>

namespace sluice::detail {

/// Numbers for one operator: those of one axis, or all of them along a first axis.
struct Indices {
  NDArray array;
  IndexKind kind;
};

/// Index arrays broadcast among themselves. Throws ValueError for none, DTypeError, ShapeError naming `name`.
Indices joined(const char* name, const std::vector<NDArray>& indices, SourceLocation site);

/// The array broadcast to `shape`, as values are that are written there: first axes of extent 1 that are too many are
/// left out, as in NumPy. Throws ShapeError naming `name`.
NDArray stretched(const NDArray& array, const Shape& shape, const char* name, SourceLocation site);

}  // namespace sluice::detail
