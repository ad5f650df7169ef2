#pragma once

#include <string>

#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// An array whose axes have names, one character each, none twice.
struct NamedAxes {
  NDArray array;
  std::string names;
};

/// The type of a product of two arrays of that type: truths are multiplied as numbers.
constexpr DType multiplied(DType dtype) noexcept {
  return dtype == DType::bool_ ? DType::int64 : dtype;
}

/// The array, its truths as numbers.
NDArray as_numbers(const NDArray& x, SourceLocation site);

/// The array with its axes in the order of `names`, which has all of its own; where it has none an axis of extent 1.
NDArray arranged(const NamedAxes& term, const std::string& names, SourceLocation site);

/// The product of a and b, summed over the axes that both have and `kept` does not name: as one matmul, or, where
/// nothing is summed, as one multiply. Axes that `kept` does not name must be in both. Extents of axes in both are
/// equal. The result's axes are those in both, then those of a, then those of b. Throws ShapeError for more than 8.
NamedAxes contracted(const NamedAxes& a, const NamedAxes& b, const std::string& kept, SourceLocation site);

}  // namespace sluice::detail
