#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

// Reductions that are made of others and of elementwise operators: operators by name too, recorded, traced and fused as
// their parts. Axes, errors and types are as in reduce.h. None of them blocks.
namespace sluice {

/// Without NaNs, as in NumPy: the product of nothing else is 1, mean and extremes of NaNs alone are NaN. The gradient
/// of a NaN is 0. Integers and bool, which have none, as without `nan`.
SLUICE_API NDArray nanprod(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanmean(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanmax(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanmin(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());

/// Variance and standard deviation of what is no NaN, as numpy.nanvar and nanstd: NaN where there are no more of them
/// than `ddof`. Integers and bool give float32. The gradient of a deviation of 0 is 0.
SLUICE_API NDArray nanvar(
    const NDArray& x,
    const Shape& axes = {},
    bool keepdims = false,
    std::int64_t ddof = 0,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanstd(
    const NDArray& x,
    const Shape& axes = {},
    bool keepdims = false,
    std::int64_t ddof = 0,
    SourceLocation site = SourceLocation::current());
/// argmax() and argmin() of what is no NaN (numpy.nanargmax, which throws where there are NaNs alone): -1 there, as in
/// jax.numpy.
SLUICE_API NDArray
nanargmax(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
nanargmin(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());

/// The vector norm of that order over the axes together (numpy.linalg.norm): sum(|x|^order)^(1 / order), of which
/// powers of large or small numbers need not fit; of order 0 how many are not 0, of infinity the largest magnitude, of
/// -infinity the smallest. Integers and bool give float32. The gradient at 0 is 0. Throws ValueError for NaN, and
/// for -infinity where there is nothing to reduce.
SLUICE_API NDArray norm(
    const NDArray& x,
    double order = 2,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
