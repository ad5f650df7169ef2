#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <sluice/ndarray/ndarray.h>

// Products of arrays of any number of axes, made of matmul, multiply and sums: operators by name too, recorded and
// traced as their parts. Operands of several types are promoted. None of them blocks; errors of types are matmul's.
namespace sluice {

/// Products of the matrices of two batches of the same leading axes, each transposed first where asked (MXNet's
/// batch_dot). Throws ShapeError for fewer than 3 axes, and for batches that differ: matmul() broadcasts them.
SLUICE_API NDArray batch_dot(
    const NDArray& a,
    const NDArray& b,
    bool transpose_a = false,
    bool transpose_b = false,
    SourceLocation site = SourceLocation::current());

/// numpy.dot: sums over the last axis of a and the last but one of b (the only one of a vector), of which all other
/// axes stay; a product with an array without axes. Of truths, as in all products below, the result is int64 (bool of
/// einsum() of one operand). Throws ShapeError where the summed axes differ.
SLUICE_API NDArray dot(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// Sums over the last axes of both: the axes of a, then those of b, without them (numpy.inner).
SLUICE_API NDArray inner(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// The sum of products of all elements, each array taken as one row (numpy.vdot).
SLUICE_API NDArray vdot(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// Every element of a times every one of b, each array taken as one row: (a.size(), b.size()) (numpy.outer).
SLUICE_API NDArray outer(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// Each element of a replaced by its product with b (numpy.kron). Throws ShapeError for more than 4 axes.
SLUICE_API NDArray kron(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());

/// Sums over axes_a[i] of a together with axes_b[i] of b, or over the last `axes` axes of a and the first of b, of
/// which two are meant without a number (numpy.tensordot): the other axes of a, then those of b. Throws ShapeError
/// where these differ in number or extent, IndexError for an axis that is not there, ValueError for one that is named
/// twice.
SLUICE_API NDArray tensordot(
    const NDArray& a,
    const NDArray& b,
    const Shape& axes_a,
    const Shape& axes_b,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray tensordot(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
namespace detail {
SLUICE_API NDArray tensordot_of_last(const NDArray& a, const NDArray& b, std::int64_t axes, SourceLocation site);
}  // namespace detail
/// Braces are never that: tensordot(a, b, {0}, {1}) names axes.
NDArray tensordot(
    const NDArray& a, const NDArray& b, std::integral auto axes, SourceLocation site = SourceLocation::current()) {
  return detail::tensordot_of_last(a, b, static_cast<std::int64_t>(axes), site);
}

/// Einstein's sum in numpy.einsum's words: "bij,bjk->bik", "...ij->...ji", "ii". A letter names an axis; what the
/// result does not name is summed. Without "->" the result has the letters that stand once, in their order, behind the
/// axes of "...", which broadcast, as do axes of extent 1. Of more than two operands those two come first whose product
/// makes the arrays together smallest. Of one operand of which nothing is summed the result is a view. Throws
/// ValueError for an equation that says nothing, naming it, ShapeError for operands that do not fit it, or where a
/// product on the way has more than 8 axes.
SLUICE_API NDArray
einsum(const std::string& equation, std::span<const NDArray> operands, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray einsum(
    const std::string& equation,
    std::initializer_list<NDArray> operands,
    SourceLocation site = SourceLocation::current());

/// The diagonal of the matrices of two axes as the last axis of a view; of offset k it begins k columns to the right,
/// or of a negative one as many rows below (numpy.diagonal). Throws IndexError, ValueError where both axes are the
/// same.
SLUICE_API NDArray diagonal(
    const NDArray& x,
    std::int64_t offset = 0,
    int axis1 = 0,
    int axis2 = 1,
    SourceLocation site = SourceLocation::current());
/// A square matrix with a vector on diagonal k and 0 elsewhere, or diagonal k of a matrix as a vector of its own
/// (numpy.diag, torch.diag, MXNet's diag). Throws ShapeError for an x of no axis or more than two.
SLUICE_API NDArray diag(const NDArray& x, std::int64_t k = 0, SourceLocation site = SourceLocation::current());
/// The sum of diagonal() (numpy.trace).
SLUICE_API NDArray trace(
    const NDArray& x,
    std::int64_t offset = 0,
    int axis1 = 0,
    int axis2 = 1,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
