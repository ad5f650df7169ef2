// Ranges, covariances, similarities, integrals: values against loops, types, gradients, graphs, and what they refuse.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Numbers = std::vector<double>;

// Of variables as rows.
Dense covariances(const NDArray& x, double ddof, bool related) {
  const Dense of(x);
  const auto variables = of.shape[0], n = of.shape[1];
  const auto at = [&](std::int64_t row, std::int64_t i) { return of.values[static_cast<std::size_t>(row * n + i)]; };
  const auto covariance = [&](std::int64_t a, std::int64_t b) {
    double mean_a = 0, mean_b = 0, total = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      mean_a += at(a, i) / static_cast<double>(n);
      mean_b += at(b, i) / static_cast<double>(n);
    }
    for (std::int64_t i = 0; i < n; ++i)
      total += (at(a, i) - mean_a) * (at(b, i) - mean_b);
    return total / (static_cast<double>(n) - ddof);
  };
  Dense made({variables, variables}, 0);
  for (std::int64_t a = 0; a < variables; ++a) {
    for (std::int64_t b = 0; b < variables; ++b) {
      const double of_own = related ? std::sqrt(covariance(a, a) * covariance(b, b)) : 1;
      made.values[static_cast<std::size_t>(a * variables + b)] = covariance(a, b) / of_own;
    }
  }
  return made;
}

void check_statistics(Device device) {
  const NDArray base = random_array({6, 11}, 1, -2, 2, float64);
  for (const DType dtype : floating_dtypes()) {
    const NDArray x = base.astype(dtype).to(device).slice(1, 1, 11, 2).slice(0, 5, 0, -2);  // (3, 5)
    const NDArray exact = x.to(cpu()).astype(float64);
    const Tolerance near = tolerance_of(dtype);
    CAPTURE(dtype);
    CHECK(differences(cov(x).to(cpu()).astype(float64), covariances(exact, 1, false).array(), near) == "");
    CHECK(differences(cov(x, {.ddof = 0}).to(cpu()).astype(float64), covariances(exact, 0, false).array(), near) == "");
    CHECK(
        differences(
            cov(x, {.rowvar = false}).to(cpu()).astype(float64),
            covariances(exact.T().copy(), 1, false).array(),
            near) == "");
    CHECK(differences(corrcoef(x).to(cpu()).astype(float64), covariances(exact, 1, true).array(), near) == "");
    CHECK(cov(x).dtype() == dtype);
    CHECK(cosine_similarity(x, x).dtype() == dtype);
    CHECK(differences(cosine_similarity(x, x * 2).to(cpu()), ones({3}).astype(dtype), near) == "");
    CHECK(trapezoid(x).dtype() == dtype);
    CHECK(ptp(x).item<double>() == Approx(ptp(exact).item<double>()).epsilon(0.02));
  }
}

}  // namespace

TEST_CASE("Covariances and correlations are those of loops", "[operator][statistics]") {
  check_statistics(cpu());
  const NDArray row = array<double>({1, 2, 4});
  CHECK(cov(row).shape().empty());
  CHECK(cov(row).item<double>() == Approx(7.0 / 3));
  CHECK(corrcoef(row).item<double>() == 1);
  CHECK(cov(row.expand_dims(0)).shape() == Shape{1, 1});
  CHECK(cov(array<int>({1, 2, 4})).dtype() == float32);
  CHECK(cov(array<int>({1, 2, 4})).item<double>() == Approx(7.0 / 3));
  CHECK(std::isnan(corrcoef(array<double>({2, 2})).item<double>()));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {  // rounded, but to nothing beyond 1
    const NDArray x = random_array({1, 7}, seed);
    CHECK(max(abs(corrcoef(vstack({x, x * 3, x * -0.7f})))).item<float>() <= 1);
  }
  CHECK(std::isnan(cov(array<double>({2})).item<double>()));  // 0 / 0
  const NDArray of_none = cov(zeros({2, 0}));
  CHECK(of_none.shape() == Shape{2, 2});
  CHECK(all(isnan(of_none)).item<bool>());
  CHECK(cov(zeros({0, 3})).shape() == Shape{0, 0});
  CHECK_THROWS_AS(cov(zeros({})), ShapeError);
  CHECK_THROWS_WITH(corrcoef(zeros({2, 3, 4})), contains("corrcoef") && contains("(2, 3, 4)"));
  CHECK_THROWS_AS(cov(NDArray()), ValueError);
}

TEST_CASE("Statistics on a GPU", "[operator][statistics][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_statistics(gpu());
}

TEST_CASE("ptp is the largest less the smallest", "[operator][statistics]") {
  const NDArray x = array<int>({3, -5, 7, 0, 2, 2}, {2, 3});
  CHECK(ptp(x).item<int>() == 12);
  CHECK(ptp(x, {1}).to_vector<int>() == std::vector<int>{12, 2});
  CHECK(ptp(x, {-2}, true).to_vector<int>() == std::vector<int>{3, 7, 5});
  CHECK(ptp(x, {0}, true).shape() == Shape{1, 3});
  CHECK(ptp(array<bool>({true, false})).dtype() == int64);
  CHECK(ptp(array<std::uint8_t>({3, 250})).item<int>() == 247);
  CHECK(ptp(x.astype(uint16).slice(1, 2, 3)).dtype() == uint16);
  CHECK(std::isnan(ptp(array<float>({1, NAN})).item<float>()));
  CHECK_THROWS_AS(ptp(zeros({0})), ValueError);
  CHECK_THROWS_AS(ptp(x, {2}), IndexError);
  CHECK_THROWS_WITH(ptp(x, {0, -2}), contains("ptp"));
}

TEST_CASE("cosine_similarity is the cosine between vectors that broadcast", "[operator][statistics]") {
  const NDArray a = array<double>({1, 0, 3, 4}, {2, 2}), b = array<double>({0, 2, 4, 3}, {2, 2});
  CHECK(cosine_similarity(a, b).to_vector<double>()[0] == 0);
  CHECK(cosine_similarity(a, b).to_vector<double>()[1] == Approx(0.96));
  CHECK(cosine_similarity(a, b, 0).to_vector<double>()[0] == Approx(12 / (std::sqrt(10.0) * 4)));
  CHECK(cosine_similarity(a, array<double>({1, 1}), -1).to_vector<double>()[0] == Approx(std::sqrt(0.5)));
  CHECK(cosine_similarity(a.slice(1, 0, 1), b).to_vector<double>()[1] == Approx(3 * 7 / (std::sqrt(18.0) * 5)));
  CHECK(cosine_similarity(zeros({1, 2}), ones({1, 2})).item<float>() == 0);
  CHECK(cosine_similarity(array<double>({1e-3, 0}), array<double>({1, 0}), 0, 1).item<double>() == Approx(1e-3));
  CHECK(
      cosine_similarity(full({1, 8}, 30000, {.dtype = float16}), full({1, 8}, 30000, {.dtype = float16}))
          .item<float>() == 1);
  CHECK(cosine_similarity(zeros({3, 0}), zeros({3, 0})).to_vector<float>() == std::vector<float>(3, 0));
  CHECK_THROWS_AS(cosine_similarity(a, zeros({3})), ShapeError);
  CHECK_THROWS_AS(cosine_similarity(a, b, 2), IndexError);
  CHECK_THROWS_WITH(cosine_similarity(a, b, 1, 0), contains("cosine_similarity") && contains("eps"));
}

TEST_CASE("trapezoid integrates along an axis", "[operator][statistics]") {
  const NDArray y = array<double>({1, 2, 4, 0, 3, 5}, {2, 3});
  CHECK(trapezoid(y).to_vector<double>() == Numbers{4.5, 5.5});
  CHECK(trapezoid(y, 2.0).to_vector<double>() == Numbers{9, 11});
  CHECK(trapezoid(y, 1.0, 0).to_vector<double>() == Numbers{0.5, 2.5, 4.5});
  const NDArray x = array<double>({0, 1, 4});
  CHECK(trapezoid(y, x).to_vector<double>() == Numbers{10.5, 13.5});
  CHECK(trapezoid(y.T(), x, 0).to_vector<double>() == Numbers{10.5, 13.5});
  CHECK(trapezoid(y, x.broadcast_to({2, 3})).to_vector<double>() == Numbers{10.5, 13.5});
  CHECK(trapezoid(y.astype(int32)).dtype() == float32);
  // Places that float32 cannot tell apart.
  const std::int64_t far = std::int64_t{1} << 60;
  CHECK(trapezoid(ones({2}), array<std::int64_t>({far, far + 3})).item<float>() == 3);
  CHECK(trapezoid(ones({2}), array<std::uint8_t>({3, 1})).item<float>() == -2);
  CHECK(trapezoid(zeros({2, 1})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(trapezoid(zeros({2, 0})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK_THROWS_AS(trapezoid(y, zeros({2})), ShapeError);
  CHECK_THROWS_WITH(trapezoid(y, zeros({3, 2})), contains("trapezoid") && contains("(3, 2)"));
  CHECK_THROWS_AS(trapezoid(y, 1.0, 2), IndexError);
  CHECK_THROWS_AS(trapezoid(zeros({})), IndexError);
}

TEST_CASE("Statistics have gradients and go through graphs", "[operator][statistics][gradient]") {
  const NDArray x = random_array({3, 5}, 4, -1, 1, float64), y = random_array({3, 5}, 5, -1, 1, float64);
  const std::vector<Function> functions = {
      [](const auto& v) { return cov(v[0]) + 0 * sum(v[1]); },
      [](const auto& v) { return cov(v[0], {.rowvar = false, .ddof = 0}) + 0 * sum(v[1]); },
      [](const auto& v) { return cov(v[0][1]) + 0 * sum(v[1]); },
      [](const auto& v) { return corrcoef(v[0].slice(0, 0, 2)) + 0 * sum(v[1]); },
      [](const auto& v) { return ptp(v[0], {1}) + ptp(v[1]); },
      [](const auto& v) { return cosine_similarity(v[0], v[1]); },
      [](const auto& v) { return cosine_similarity(v[0], v[1].slice(0, 0, 1), 0); },
      [](const auto& v) { return trapezoid(v[0], v[1]); },
      [](const auto& v) { return trapezoid(v[0], v[1][0], 1) + trapezoid(v[0], 0.5); }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CAPTURE(i);
    CHECK(gradient_differences(functions[i], {x, y}) == "");
    CHECK(traced_differences(functions[i], {x, y}) == "");
  }
}
