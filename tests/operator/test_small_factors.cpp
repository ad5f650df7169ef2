// On both sides of the bound up to which a CPU factors matrices by functions of ours.
#include <cmath>
#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Determinants and solutions of small matrices are as exact as those of large ones", "[linalg]") {
  for (const DType dtype : {float32, float64}) {
    for (const std::int64_t n : {1, 2, 3, 5, 8, 31, 32, 33, 40}) {
      CAPTURE(name_of(dtype), n);
      // No row is its own pivot.
      const NDArray moved = roll(one_hot(arange(0, n, 1, {.dtype = int64}), n).astype(dtype), {1}, {0});
      CHECK(det(moved).item<double>() == (n % 2 == 0 ? -1 : 1));
      CHECK(inverse(moved).to_vector<double>() == moved.T().to_vector<double>());
      const NDArray x = random_array({3, n, n}, 3, -1, 1, dtype), b = random_array({3, n, 2}, 4, -1, 1, dtype);
      CHECK(differences(matmul(x, solve(x, b)), b, {5e-3, dtype == float64 ? 1e-11 : 5e-3}) == "");
      CHECK(differences(abs(det(x)), prod(svd(x).s, {1}), {dtype == float64 ? 1e-11 : 1e-3, 0}) == "");
      const NDArray flat = x * not_equal(arange(0, static_cast<double>(n)), n / 2).astype(dtype);  // a column of 0
      CHECK(det(flat).to_vector<double>() == std::vector<double>(3, 0));
      CHECK(slogdet(flat).logabsdet.to_vector<double>() == std::vector<double>(3, -INFINITY));
      CHECK_THROWS_AS(solve(flat, b).wait_to_read(), ValueError);
    }
  }
}
