#pragma once

#include <sluice/ndarray/ndarray.h>

namespace sluice {

// Reductions over any set of axes. `axes` empty = all of them; negative axes count from the back; `keepdims` keeps
// the reduced axes as extent 1. Names and rules are NumPy's. All of them throw IndexError for an axis out of range,
// ValueError for one named twice, and give the same bits on every run.

/// Sum. Floating types keep their type (float16 and bfloat16 add up in float), integers and bool give int64. An
/// empty sum is 0.
SLUICE_API NDArray
sum(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Arithmetic mean. Integers and bool give float32. The mean of nothing is NaN.
SLUICE_API NDArray
mean(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Product. Types as in sum(). An empty product is 1.
SLUICE_API NDArray
prod(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Largest element, of x's type; a NaN wins. The gradient is divided evenly among elements that tie for the maximum
/// (as torch.amax does; MXNet gave each of them all of it). Throws ValueError for a reduction over no elements.
SLUICE_API NDArray
max(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Smallest element; otherwise as max().
SLUICE_API NDArray
min(const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Index (int64) of the largest element along `axis`; of the first one where several tie, of the first NaN if there
/// is one. Not differentiable. Throws ValueError for an axis of extent 0.
SLUICE_API NDArray
argmax(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());
/// Index (int64) of the smallest element along `axis`; otherwise as argmax().
SLUICE_API NDArray
argmin(const NDArray& x, int axis, bool keepdims = false, SourceLocation site = SourceLocation::current());

}  // namespace sluice
