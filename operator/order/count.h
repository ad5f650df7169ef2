#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// How often each of 0 .. bins - 1 stands in x, of integers of any shape (int64). numpy.bincount with as many bins as
/// asked for: what is negative, or no smaller than `bins`, is not counted. Not differentiable. Throws DTypeError for
/// other types, ValueError for a negative number of bins. Does not block.
SLUICE_API NDArray bincount(const NDArray& x, std::int64_t bins, SourceLocation site = SourceLocation::current());

/// How many elements lie in each of so many equal bins (int64), and the edges of these, bins + 1 (float64).
struct Histogram {
  NDArray counts, edges;
};

/// numpy.histogram with a number of bins and a range (torch.histc, MXNet's histogram): a bin holds its lower edge, the
/// last one its upper edge too; elements outside, and NaNs, are not counted. Not differentiable. Throws ValueError for
/// less than one bin, and unless low < high are finite. Does not block.
SLUICE_API Histogram histogram(
    const NDArray& x, std::int64_t bins, double low, double high, SourceLocation site = SourceLocation::current());

}  // namespace sluice
