#pragma once

#include <span>
#include <vector>

#include <sluice/ndarray/autograd.h>
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

/// Throws ShapeError naming `name` unless stretched() takes an array of shape `given` to `shape`.
void check_stretches(const Shape& given, const Shape& shape, const char* name);
/// The array broadcast to `shape`, as values are that are written there: first axes of extent 1 that are too many are
/// left out, as in NumPy. Throws ShapeError naming `name`.
NDArray stretched(const NDArray& array, const Shape& shape, const char* name, SourceLocation site);

/// Whether stretched() would make a call for a trace that holds the first extent of `shape`, a batch's perhaps.
bool stretches_batch(const NDArray& array, const Shape& shape, const char* name);
/// The same as stretched() to the shape of `model`, which is `shape`: the call holds no extents.
NDArray stretched_like(
    const NDArray& array, const NDArray& model, const Shape& shape, const char* name, SourceLocation site);
/// stretched(), by what `model` makes of other arrays where a call must not hold the size of a batch; it may make none.
template <class Model>
NDArray stretched_as(
    const NDArray& array, const Shape& shape, const char* name, SourceLocation site, const Model& model) {
  NDArray made;
  if (stretches_batch(array, shape, name)) {
    const autograd::PauseScope unrecorded(autograd::is_training());  // its shape alone is asked for
    made = model();
  }
  if (made.defined())
    return stretched_like(array, made, shape, name, site);
  return stretched(array, shape, name, site);
}

// Models of such shapes, made of views whose calls hold no batch either: of index arrays broadcast among themselves; of
// what lies beside an axis of the other operand, along which the shape has its own extent; of what is taken from x.
NDArray model_among(std::span<const NDArray> arrays, const Shape& shape, const char* name);
NDArray model_along(const NDArray& other, int axis, const Shape& shape, const char* name);
NDArray model_of_taken(
    const NDArray& x, const NDArray& indices, IndexKind kind, int axis, const Shape& taken, const char* name);

}  // namespace sluice::detail
