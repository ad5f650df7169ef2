#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include <sluice/operator/gather/gather.h>

// Indexing by arrays: entries taken, replaced and added to. What takes is differentiable, duplicates adding up in a
// fixed order; what replaces or adds gives a new array, with gradients for x and for the values: of several values of
// one entry the last one stays, and it alone gets a gradient. Values are broadcast, and become x's type. Indices are of
// any integer type; what one outside its axis means says IndexMode, an IndexError being thrown at the wait. All throw
// DTypeError for indices of another type, ShapeError for shapes that do not fit, IndexError for an axis that x does not
// have, ValueError for entries of an empty axis. None of them blocks.
namespace sluice {

/// x[indices[0], indices[1], ..] of NumPy, for index arrays that name axes `axis`, axis + 1, ..: these are broadcast
/// among themselves, and their shape takes the place of those axes. Throws ValueError for no index arrays.
SLUICE_API NDArray take(
    const NDArray& x,
    const std::vector<NDArray>& indices,
    int axis = 0,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());
/// x with x[indices[0], indices[1], ..] = values (MXNet's npx.index_update).
SLUICE_API NDArray index_update(
    const NDArray& x,
    const std::vector<NDArray>& indices,
    const NDArray& values,
    int axis = 0,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());
/// x with values added to entries, those of one entry one after the other (numpy.add.at, MXNet's npx.index_add).
SLUICE_API NDArray index_add(
    const NDArray& x,
    const std::vector<NDArray>& indices,
    const NDArray& values,
    int axis = 0,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());

/// x with x[{..}] = values, and x with values added there, for subscripts of all kinds (ndarray/subscript.h); reading
/// them is x[{..}], writing x itself x.assign({..}, values) and x.add_at({..}, values). Throw as operator[] does.
SLUICE_API NDArray index_update(
    const NDArray& x,
    std::initializer_list<Subscript> at,
    const NDArray& values,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray index_add(
    const NDArray& x,
    std::initializer_list<Subscript> at,
    const NDArray& values,
    SourceLocation site = SourceLocation::current());

/// MXNet's gather_nd: the first axis of `indices` holds coordinates along x's first axes, y[i, ..] = x[indices[0, i],
/// indices[1, i], ..].
SLUICE_API NDArray gather_nd(
    const NDArray& x,
    const NDArray& indices,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());
/// MXNet's scatter_nd: zeros of `shape` with `values` where gather_nd() would take them.
SLUICE_API NDArray scatter_nd(
    const NDArray& values, const NDArray& indices, const Shape& shape, SourceLocation site = SourceLocation::current());

/// numpy.take_along_axis (torch.gather): y[.., i, ..] = x[.., indices[.., i, ..], ..], for indices with as many axes as
/// x; the others are broadcast. With argsort() it sorts.
SLUICE_API NDArray take_along_axis(
    const NDArray& x,
    const NDArray& indices,
    int axis = -1,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());
/// x with values where take_along_axis() takes them (numpy.put_along_axis, which writes x, and torch.scatter).
SLUICE_API NDArray put_along_axis(
    const NDArray& x,
    const NDArray& indices,
    const NDArray& values,
    int axis = -1,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());
/// x with values added there (torch.scatter_add).
SLUICE_API NDArray add_along_axis(
    const NDArray& x,
    const NDArray& indices,
    const NDArray& values,
    int axis = -1,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());

/// x with values at indices into all of its elements, row by row (numpy.put, which writes x).
SLUICE_API NDArray
put(const NDArray& x,
    const NDArray& indices,
    const NDArray& values,
    IndexMode mode = IndexMode::raise,
    SourceLocation site = SourceLocation::current());

/// Entries of the axis where `condition` (of one axis, any type) is not 0, of all elements without an axis:
/// numpy.compress. Waits for the condition. No operator by name, for its shape depends on values. Throws ShapeError for
/// another condition, ValueError while a program is traced.
SLUICE_API NDArray compress(
    const NDArray& condition,
    const NDArray& x,
    std::optional<int> axis = {},
    SourceLocation site = SourceLocation::current());
/// x[mask] = value of NumPy as a new array, where() with a mask (bool) that has the extents of x's first axes. Waits
/// for nothing. Throws DTypeError for another type of mask, ShapeError for another shape.
SLUICE_API NDArray masked_fill(
    const NDArray& x, const NDArray& mask, const NDArray& value, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
masked_fill(const NDArray& x, const NDArray& mask, Scalar value, SourceLocation site = SourceLocation::current());

/// Rows of `weight` at indices, take() along its first axis, but the row `padding` gets no gradient (torch's
/// padding_idx); it may count from the back. Throws IndexError for a row that there is not.
SLUICE_API NDArray embedding(
    const NDArray& indices,
    const NDArray& weight,
    std::optional<std::int64_t> padding = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
