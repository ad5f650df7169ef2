#pragma once

#include <concepts>
#include <vector>

#include <sluice/ndarray/ndarray.h>

// What stands at a part of the way through entries in order: operators by name too, made of sort(). Axes are those of
// reductions (reduce.h): any, none are all; `keepdims` keeps them as extent 1. Between two entries it lies in
// proportion. Integers and bool become float32; the gradient goes to the one or two entries that a result is made of.
// They throw ValueError where there are no entries, IndexError for an axis that x does not have. None of them blocks.
namespace sluice {

/// The number that part q of the entries do not exceed (numpy.quantile, torch.quantile); NaN where there is one. Throws
/// ValueError unless 0 <= q <= 1.
SLUICE_API NDArray quantile(
    const NDArray& x,
    double q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
/// One for each of `q`, along a new first axis, of entries that are brought in order once.
SLUICE_API NDArray quantile(
    const NDArray& x,
    const std::vector<double>& q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
/// quantile() of q / 100 (numpy.percentile).
SLUICE_API NDArray percentile(
    const NDArray& x,
    double q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray percentile(
    const NDArray& x,
    const std::vector<double>& q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
/// The entry in the middle, or the mean of the two there, as numpy.median (torch.median gives the lower of the two).
SLUICE_API NDArray median(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());

/// The same of the entries that are not NaN (numpy.nanquantile, nanpercentile, nanmedian); of NaNs alone NaN.
SLUICE_API NDArray nanquantile(
    const NDArray& x,
    double q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanpercentile(
    const NDArray& x,
    double q,
    const Shape& axes = {},
    bool keepdims = false,
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray nanmedian(
    const NDArray& x, const Shape& axes = {}, bool keepdims = false, SourceLocation site = SourceLocation::current());

/// Along one axis.
NDArray quantile(
    const NDArray& x,
    double q,
    std::integral auto axis,
    bool keepdims = false,
    SourceLocation site = SourceLocation::current()) {
  return quantile(x, q, Shape{axis}, keepdims, site);
}
NDArray percentile(
    const NDArray& x,
    double q,
    std::integral auto axis,
    bool keepdims = false,
    SourceLocation site = SourceLocation::current()) {
  return percentile(x, q, Shape{axis}, keepdims, site);
}
NDArray median(
    const NDArray& x, std::integral auto axis, bool keepdims = false, SourceLocation site = SourceLocation::current()) {
  return median(x, Shape{axis}, keepdims, site);
}

}  // namespace sluice
