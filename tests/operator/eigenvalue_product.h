#pragma once

// Products of eigenvalues against exact ones: how far they may be off follows from the matrix.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

namespace sluice::test {

// An eigenvalue is right to some units in the last place of the largest one (Weyl), and the product to what follows of
// it.
inline void check_product(const NDArray& values, const NDArray& exact) {
  const double unit = values.dtype() == float64 ? 0x1p-52 : 0x1p-23;
  const std::int64_t n = exact.shape().back();
  const std::vector<double> got = prod(values, {-1}).to_vector<double>(), of = exact.to_vector<double>();
  for (std::size_t matrix = 0; matrix < got.size(); ++matrix) {
    const std::span<const double> one(of.data() + matrix * static_cast<std::size_t>(n), static_cast<std::size_t>(n));
    double product = 1, largest = 0, changes = 1;
    for (const double value : one) {
      product *= value;
      largest = std::max(largest, std::abs(value));
    }
    for (const double value : one)
      changes += largest * std::abs(product / value);
    CHECK(std::abs(got[matrix] - product) <= 8 * unit * changes);
  }
}

}  // namespace sluice::test
