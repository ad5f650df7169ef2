// Matrices that a block of a GPU keeps for itself, and the first that it does not, beside LAPACK's on the CPU.
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Around a block's sizes, 32 and 64.
const std::int64_t k_sizes[] = {1, 2, 16, 31, 32, 33, 63, 64, 65};

Tolerance close(DType dtype) {
  return dtype == float64 ? Tolerance{1e-10, 1e-10} : Tolerance{2e-3, 2e-3};
}

std::string same(const NDArray& on_gpu, const NDArray& on_cpu) {
  return differences(on_gpu.to(cpu()), on_cpu, close(on_cpu.dtype()));
}

// Rows have to change places for it, and it is far from singular.
NDArray general(std::int64_t count, std::int64_t n, DType dtype) {
  const NDArray at = arange(0, static_cast<double>(n));
  const NDArray turned = equal(at.expand_dims(1), (at + static_cast<double>(n / 3 + 1)) % static_cast<double>(n));
  return random_array({count, n, n}, 3, -1, 1, dtype) + turned.astype(dtype) * (2 * static_cast<double>(n));
}

// Another for each of the places; above the diagonal stands what nobody may read.
NDArray positive(std::int64_t count, std::int64_t n, DType dtype) {
  const NDArray x = random_array({count, n, n}, 4, -1, 1, dtype), at = arange(0, static_cast<double>(n));
  const NDArray diagonal = equal(at.expand_dims(1), at.expand_dims(0)).astype(dtype);
  const NDArray whole = matmul(x, x.swapaxes(-1, -2)) + diagonal;
  return where(less(at.expand_dims(1), at.expand_dims(0)), std::numeric_limits<double>::quiet_NaN(), whole);
}

}  // namespace

TEST_CASE("Small matrices are factored and solved for on a GPU as on the CPU", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64}) {
    for (const std::int64_t n : k_sizes) {
      CAPTURE(dtype, n);
      const NDArray a = general(3, n, dtype), there = a.to(gpu());
      CHECK(same(cholesky(positive(3, n, dtype).to(gpu())), cholesky(positive(3, n, dtype))) == "");
      CHECK(same(inverse(there), inverse(a)) == "");
      CHECK(same(slogdet(there).logabsdet, slogdet(a).logabsdet) == "");
      CHECK(same(slogdet(there).sign, slogdet(a).sign) == "");
      // As many vectors as a block takes at a time, one more, and several times as many.
      for (const std::int64_t vectors : {1, 32, 33, 64, 65, 150}) {
        CAPTURE(vectors);
        const NDArray b = random_array({3, n, vectors}, 5, -1, 1, dtype);
        CHECK(same(solve(there, b.to(gpu())), solve(a, b)) == "");
      }
    }
  }
}

TEST_CASE("Small triangles are solved for on a GPU as on the CPU, whichever and whichever way", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64}) {
    for (const std::int64_t n : k_sizes) {
      // Unknowns shrink on the way: otherwise rounding grows with n.
      const NDArray at = arange(0, static_cast<double>(n));
      const NDArray diagonal = equal(at.expand_dims(1), at.expand_dims(0)).astype(dtype);
      const NDArray a = random_array({2, n, n}, 6, -1, 1, dtype) * (0.5 / static_cast<double>(n)) + diagonal;
      const NDArray b = random_array({2, n, 70}, 7, -1, 1, dtype);
      for (int i = 0; i < 8; ++i) {
        const TriangularOptions how{.lower = (i & 1) != 0, .transpose = (i & 2) != 0, .unit_diagonal = (i & 4) != 0};
        CAPTURE(dtype, n, i);
        CHECK(same(triangular_solve(a.to(gpu()), b.to(gpu()), how), triangular_solve(a, b, how)) == "");
      }
    }
  }
}

TEST_CASE("Of small matrices on a GPU the first that fails is named", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::int64_t n : {5, 40}) {
    CAPTURE(n);
    const NDArray at = arange(0, static_cast<double>(n));
    const NDArray one = equal(at.expand_dims(1), at.expand_dims(0)).astype(float32);
    NDArray many = one.broadcast_to({6, n, n}).copy();
    many[{4, n - 1, n - 1}].assign(-1);
    many[{3, 2, 2}].assign(0);
    many[{5, 1, 1}].assign(0);
    const NDArray there = many.to(gpu());
    CHECK_THROWS_WITH(cholesky(there).wait_to_read(), contains("matrix 3"));
    CHECK_THROWS_WITH(inverse(there).wait_to_read(), contains("matrix 3"));
    CHECK(det(there).to_vector<float>() == std::vector<float>{1, 1, 1, 0, -1, 0});
  }
}
