#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <sluice/ndarray/ndarray.h>

// Calls of concat() and slice() by the names that NumPy and PyTorch have for them. Types are promoted to a common one.
// They throw ValueError for no arrays, ShapeError naming the first array that does not fit.
namespace sluice {

/// Side by side: along the second axis, arrays of one axis along it (numpy.hstack, torch.hstack).
SLUICE_API NDArray hstack(std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray hstack(std::initializer_list<NDArray> arrays, SourceLocation site = SourceLocation::current());
/// One below the other: along the first axis, arrays of one axis as rows (numpy.vstack, torch.vstack).
SLUICE_API NDArray vstack(std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray vstack(std::initializer_list<NDArray> arrays, SourceLocation site = SourceLocation::current());
/// One behind the other: along the third axis of what atleast_3d() gives (numpy.dstack, torch.dstack).
SLUICE_API NDArray dstack(std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray dstack(std::initializer_list<NDArray> arrays, SourceLocation site = SourceLocation::current());
/// hstack() with arrays of one axis as columns (numpy.column_stack, torch.column_stack).
SLUICE_API NDArray column_stack(std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray column_stack(std::initializer_list<NDArray> arrays, SourceLocation site = SourceLocation::current());

/// `parts` slices of x along `axis`, the first ones longer by one where the extent does not divide evenly
/// (numpy.array_split, torch.tensor_split): views, no copies. Throws ValueError unless parts > 0, IndexError for an
/// axis that x does not have. At places of one's own: split().
SLUICE_API std::vector<NDArray> array_split(
    const NDArray& x, std::int64_t parts, int axis = 0, SourceLocation site = SourceLocation::current());

}  // namespace sluice
