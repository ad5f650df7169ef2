// Distributions beyond uniform and normal numbers: whether they are those, and the same bits wherever they are drawn.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/random/draws.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::contains;
using Column = std::vector<double>;
constexpr double k_inf = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();

double normal_cdf(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

// Numerically, from the density: trapezia between `from` and x, fine where the density is smooth.
std::function<double(double)> integral(const std::function<double(double)>& density, double from, double to) {
  const int n = 200000;
  std::vector<double> sums(n + 1);
  const double step = (to - from) / n;
  for (int i = 1; i <= n; ++i)
    sums[static_cast<std::size_t>(i)] = sums[static_cast<std::size_t>(i) - 1] + step * density(from + (i - 0.5) * step);
  return [=](double x) {
    const double at = std::min(std::max((x - from) / step, 0.0), static_cast<double>(n));
    const auto low = static_cast<std::size_t>(std::min(at, n - 1.0));
    return sums[low] + (at - static_cast<double>(low)) * (sums[low + 1] - sums[low]);
  };
}

// Kolmogorov and Smirnov: the largest distance between the share of numbers up to x and their probability, times the
// root of how many; beyond 1.95 once in a thousand times.
double ks_distance(Column values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(values[i]), at = static_cast<double>(i);
    most = std::max({most, (at + 1) / n - p, p - at / n});
  }
  return most * std::sqrt(n);
}

void check_ks(const char* name, const NDArray& drawn, const std::function<double(double)>& cdf) {
  INFO(name);
  CHECK(ks_distance(drawn.to_vector<double>(), cdf) < 1.95);
}

constexpr std::int64_t k_many = 40000;
const ArrayOptions k_wide = {.dtype = float64};

void check_gamma(double alpha, double scale) {
  const auto density = [=](double x) { return std::exp((alpha - 1) * std::log(x) - x - std::lgamma(alpha)); };
  const NDArray drawn = random::gamma(alpha, scale, {k_many}, k_wide);
  if (alpha >= 1)
    return check_ks("gamma", drawn / scale, integral(density, 0, alpha + 40 * std::sqrt(alpha) + 40));
  // x^alpha has a density without a pole: substitute.
  const auto even = [=](double y) { return std::exp(-std::pow(y, 1 / alpha) - std::lgamma(alpha)) / alpha; };
  const auto cdf = integral(even, 0, std::pow(60.0, alpha));
  check_ks("gamma of a small alpha", drawn / scale, [&](double x) { return cdf(std::pow(x, alpha)); });
}

double log_pmf(double lam, double k) {
  return k * std::log(lam) - lam - std::lgamma(k + 1);
}

// Bins of about equal chances; chi-square within 5 deviations of its mean.
void check_poisson(double lam) {
  const Column drawn = random::poisson(lam, {k_many}).to_vector<double>();
  std::map<double, double> counts;
  for (const double k : drawn)
    ++counts[k];
  double chi = 0, bins = 0, chance = 0, seen = 0, all = 0;
  const double width = 12 * std::sqrt(lam) + 20;
  for (double k = std::max(0.0, std::floor(lam - width)); k < lam + width; ++k) {
    chance += std::exp(log_pmf(lam, k));
    seen += counts[k];
    all += counts[k];
    if (chance * k_many < 50 && k + 1 < lam + width)
      continue;
    const double expected = std::max(chance * k_many, 1.0);
    chi += (seen - expected) * (seen - expected) / expected;
    bins += 1;
    chance = seen = 0;
  }
  INFO("lam " << lam << ", " << bins << " bins");
  CHECK(all == static_cast<double>(k_many));
  CHECK(chi < bins + 5 * std::sqrt(2 * bins));
}

}  // namespace

TEST_CASE("Own logarithms and exponentials are those of the library to the last bits", "[random]") {
  double worst_log = 0, worst_exp = 0;
  for (int i = 1; i < 200000; ++i) {
    const double x = std::pow(1.0037, i - 100000) * (1 + 1e-3 * (i % 7));
    if (x < 1e-300 || x > 1e300)
      continue;
    worst_log = std::max(worst_log, std::abs(detail::exact_log(x).value / std::log(x) - 1));
    const double y = (i - 100000) / 150.0;
    worst_exp = std::max(worst_exp, std::abs(detail::exact_exp(y).value / std::exp(y) - 1));
  }
  CHECK(worst_log < 1e-15);
  CHECK(worst_exp < 1e-15);
  CHECK(detail::exact_log(1.0).value == 0);
  CHECK(detail::exact_exp(0.0).value == 1);
  CHECK(detail::exact_exp(-k_inf).value == 0);
  for (const double x : {1e-12, -1e-5, 0.1, -0.24})
    CHECK(
        detail::exact_log1p_minus(x).value == Approx(static_cast<double>(std::log1p(static_cast<long double>(x)) - x)));
  for (const double lam : {10.0, 17.5, 300.0, 1e5}) {
    for (const double k : {0.0, 9.0, 10.0, 11.0, 20.0, 290.0, 1e5}) {
      const long double want = k * std::log(static_cast<long double>(lam)) - lam - std::lgamma(k + 1.0L);
      CAPTURE(lam, k);
      CHECK(detail::log_poisson(k, lam).value == Approx(static_cast<double>(want)).epsilon(1e-13).margin(1e-12));
    }
  }
}

TEST_CASE("Continuous distributions are what they are called", "[random]") {
  random::seed(1);
  check_ks("exponential", random::exponential(3, {k_many}, k_wide), [](double x) { return 1 - std::exp(-x / 3); });
  check_ks("laplace", random::laplace(2, 0.5, {k_many}, k_wide), [](double x) {
    const double z = (x - 2) / 0.5;
    return z < 0 ? 0.5 * std::exp(z) : 1 - 0.5 * std::exp(-z);
  });
  check_ks(
      "gumbel", random::gumbel(-1, 2, {k_many}, k_wide), [](double x) { return std::exp(-std::exp(-(x + 1) / 2)); });
  for (const double alpha : {0.05, 0.5, 1.0, 1.5, 30.0, 4000.0})
    check_gamma(alpha, 2);
  for (const auto& [a, b] : {std::pair{1.0, 1.0}, {2.0, 5.0}, {40.0, 1.5}}) {
    const auto density = [a = a, b = b](double x) {
      return std::exp(
          (a - 1) * std::log(x) + (b - 1) * std::log(1 - x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
    };
    check_ks("beta", random::beta(a, b, {k_many}, k_wide), integral(density, 0, 1));
  }
  check_ks("arcsine", random::beta(0.5, 0.5, {k_many}, k_wide), [](double x) {
    return 2 / std::acos(-1.0) * std::asin(std::sqrt(x));
  });
}

TEST_CASE("Normal numbers that are cut have the distribution of those between the ends", "[random]") {
  random::seed(2);
  const double ends[][2] = {
      {-2, 2},
      {-0.1, 0.2},
      {-k_inf, k_inf},
      {0.5, k_inf},
      {3, 9},
      {5, 5.01},
      {4, 4.2},
      {-k_inf, -4},
      {-7, -1},
      {0, 2.6}};
  for (const auto& [a, b] : ends) {
    const double low = 1 + 2 * a, high = 1 + 2 * b;  // mean 1, deviation 2
    const NDArray drawn = random::truncated_normal(1, 2, low, high, {k_many}, k_wide);
    INFO(a << " to " << b);
    // Upper tails by the lower ones, whose digits are not lost.
    const bool upper = a > 0;
    const double all = upper ? normal_cdf(-a) - normal_cdf(-b) : normal_cdf(b) - normal_cdf(a);
    check_ks("truncated normal", drawn, [&, a = a](double x) {
      const double z = (x - 1) / 2;
      return (upper ? normal_cdf(-a) - normal_cdf(-z) : normal_cdf(z) - normal_cdf(a)) / all;
    });
    for (const DType dtype : test::floating_dtypes()) {
      if (dtype == bfloat16 && a == 5)
        continue;  // which has no number there
      const NDArray rounded = random::truncated_normal(1, 2, low, high, {4000}, {.dtype = dtype});
      CHECK(min(rounded).item<double>() >= low);
      CHECK(max(rounded).item<double>() <= high);
    }
  }
  CHECK_THROWS_WITH(
      random::truncated_normal(1, 2, 1.001, 1.002, {2}, {.dtype = bfloat16}), contains("no bfloat16 lies in"));
}

TEST_CASE("Poisson numbers come up as often as they should, however large their mean", "[random]") {
  random::seed(3);
  for (const double lam : {0.01, 0.5, 3.0, 9.99, 10.0, 11.5, 60.0, 2000.0, 1e6})
    check_poisson(lam);
  for (const double lam : {1e9, 1e12, 1e15, 0x1p52}) {
    const Column drawn = random::poisson(lam, {k_many}, k_wide).to_vector<double>();
    Column scaled;
    for (const double k : drawn)
      scaled.push_back((k - lam + 0.5) / std::sqrt(lam));
    INFO(lam);
    CHECK(ks_distance(scaled, normal_cdf) < 1.95);
  }
  CHECK(max(random::poisson(0, {1000})).item<std::int64_t>() == 0);
  CHECK(max(random::poisson(1e6, {1000}, {.dtype = int8})).item<int>() == 127);
  CHECK(min(random::poisson(1e6, {1000}, {.dtype = uint8})).item<int>() == 255);
}

TEST_CASE("Gammas and Poisson numbers of an array are each of their own parameter", "[random]") {
  random::seed(4);
  const NDArray many = array<float>({0.5F, 1000, 20, -1, static_cast<float>(k_nan), 0});
  const NDArray means = many.expand_dims(0).broadcast_to({3000, 6});  // with steps of 0
  const Column gammas = mean(random::gamma(means.slice(1, 0, 3), float64), {0}).to_vector<double>();
  const Column counts = mean(random::poisson(means.slice(1, 0, 3), float64), {0}).to_vector<double>();
  const double wanted[] = {0.5, 1000, 20};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(gammas[i] == Approx(wanted[i]).margin(5 * std::sqrt(wanted[i] / 3000)));
    CHECK(counts[i] == Approx(wanted[i]).margin(5 * std::sqrt(wanted[i] / 3000)));
  }
  const Column strange = random::gamma(many, float32).to_vector<double>();
  CHECK((std::isnan(strange[3]) && std::isnan(strange[4]) && std::isnan(strange[5])));
  const auto whole = random::poisson(many).to_vector<std::int64_t>();
  CHECK((whole[3] == -1 && whole[4] == -1 && whole[5] == 0));
  CHECK(random::poisson(many, uint8).to_vector<int>()[3] == 0);
  CHECK(std::isnan(random::poisson(many, float16).to_vector<double>()[3]));
  random::seed(5);
  const Column by_array = random::gamma(full({50}, 2.5), float64).to_vector<double>();
  random::seed(5);
  CHECK(random::gamma(2.5, 1, {50}, k_wide).to_vector<double>() == by_array);
}

TEST_CASE("Categories are drawn by their weights, and counted", "[random]") {
  random::seed(6);
  const NDArray weights = array<float>({1, 0, 2, 5, static_cast<float>(k_nan), -3, 0, 0, 0, 0, 7, 0}, {2, 6});
  const NDArray drawn = random::categorical(weights, k_many);
  CHECK(drawn.shape() == Shape{2, k_many});
  CHECK(drawn.dtype() == int64);
  const auto count = [&](std::int64_t row, int category) {
    return sum(drawn[row] == category).item<double>() / k_many;
  };
  CHECK(count(0, 0) == Approx(0.125).margin(5 * std::sqrt(0.11 / k_many)));
  CHECK(count(0, 2) == Approx(0.25).margin(5 * std::sqrt(0.19 / k_many)));
  CHECK(count(0, 3) == Approx(0.625).margin(5 * std::sqrt(0.24 / k_many)));
  CHECK(count(1, 4) == 1);
  const NDArray alike = random::categorical(ones({2, 8}), 100);
  CHECK(test::differences(alike[0], alike[1]) != "");  // each row has numbers of its own
  const NDArray counts = random::multinomial(1000, weights);
  CHECK(counts.shape() == Shape{2, 6});
  const auto rows = counts.to_vector<std::int64_t>();
  CHECK((rows[1] == 0 && rows[4] == 0 && rows[5] == 0 && rows[10] == 1000));
  CHECK(rows[0] + rows[2] + rows[3] == 1000);
  CHECK(rows[3] == Approx(625).margin(80));
  CHECK(max(random::categorical(zeros({3}), 5)).item<std::int64_t>() == -1);
  CHECK(sum(random::multinomial(5, zeros({2, 3}))).item<std::int64_t>() == 0);
  CHECK(random::categorical(weights, 0).shape() == Shape{2, 0});
  CHECK(random::categorical(zeros({0, 3}), 4).shape() == Shape{0, 4});
  CHECK_THROWS_WITH(random::categorical(zeros({2, 0})), contains("weights of shape (2, 0) have no categories"));
  CHECK_THROWS_AS(random::categorical(ones({})), ShapeError);
  CHECK_THROWS_AS(random::categorical(ones({2}, {.dtype = int32})), DTypeError);
  CHECK_THROWS_AS(random::categorical(weights, -1), ValueError);
}

TEST_CASE("Categories are drawn by weights at the ends of what numbers can be", "[random]") {
  random::seed(11);
  constexpr double k_denormal = 5e-324;
  for (const double weight : {1e308, 1.7e308, 1e-310, k_denormal}) {
    const auto drawn = random::categorical(array<double>({weight, weight, 0}), 1000).to_vector<std::int64_t>();
    CAPTURE(weight);
    CHECK(std::count(drawn.begin(), drawn.end(), 2) == 0);  // of no weight
    CHECK(std::abs(static_cast<double>(std::count(drawn.begin(), drawn.end(), 0)) - 500) < 300);
  }
  const NDArray among = random::categorical(array<double>({k_inf, 1, k_nan, -1}), 50);
  CHECK((min(among).item<int>() == 1 && max(among).item<int>() == 1));
  const auto least = random::beta(1e-300, 1e-300, {200}, {.dtype = float64}).to_vector<double>();
  CHECK(std::all_of(least.begin(), least.end(), [](double x) { return x == 0 || x == 1; }));
  CHECK(std::abs(std::count(least.begin(), least.end(), 0.0) - 100) < 40);
  CHECK_THROWS_WITH(random::beta(1e-310, 1, {2}), contains("random::beta") && contains("1e-310"));
  CHECK_THROWS_AS(random::beta(1, 1e-310, {2}), ValueError);
}

TEST_CASE("Distributions refuse what is none", "[random]") {
  for (const double bad : {k_nan, -1.0, k_inf}) {
    CHECK_THROWS_WITH(random::exponential(bad, {2}), contains("random::exponential: scale is"));
    CHECK_THROWS_AS(random::laplace(0, bad, {2}), ValueError);
    CHECK_THROWS_AS(random::gumbel(0, bad, {2}), ValueError);
    CHECK_THROWS_AS(random::gamma(bad, 1, {2}), ValueError);
    CHECK_THROWS_AS(random::gamma(1, bad, {2}), ValueError);
    CHECK_THROWS_AS(random::beta(1, bad, {2}), ValueError);
    CHECK_THROWS_AS(random::poisson(bad, {2}), ValueError);
    CHECK_THROWS_AS(random::truncated_normal(0, bad, -1, 1, {2}), ValueError);
  }
  CHECK_THROWS_AS(random::gamma(0, 1, {2}), ValueError);
  CHECK_THROWS_AS(random::beta(0, 1, {2}), ValueError);
  CHECK_THROWS_AS(random::poisson(0x1p53, {2}), ValueError);
  CHECK_THROWS_AS(random::laplace(k_nan, 1, {2}), ValueError);
  CHECK_THROWS_AS(random::truncated_normal(0, 1, 1, 1, {2}), ValueError);
  CHECK_THROWS_AS(random::truncated_normal(0, 1, k_nan, 1, {2}), ValueError);
  CHECK_THROWS_WITH(random::gumbel(0, 1, {2}, {.dtype = int32}), contains("floating types, not int32"));
  CHECK_THROWS_AS(random::poisson(1, {2}, {.dtype = bool_}), DTypeError);
  CHECK_THROWS_AS(random::exponential(1, {-2}), ShapeError);
  CHECK(random::gamma(1, 1, {0, 3}).size() == 0);
  CHECK(max(random::exponential(0, {9})).item<float>() == 0);
}

TEST_CASE("Orders, shuffles and choices hold each entry as often as they should", "[random]") {
  random::seed(7);
  const NDArray x = arange(0, 60).reshape({20, 3});
  const NDArray mixed = random::permutation(x);
  CHECK(test::differences(sort(mixed, 0), x) == "");
  CHECK(test::differences(mixed, x) != "");
  CHECK(test::differences(mixed.slice(1, 1, 2), mixed.slice(1, 0, 1) + 1) == "");  // rows stay together
  const NDArray held = arange(0, 60).reshape({3, 20});
  random::shuffle(held.T());  // in place, where it lies
  CHECK(test::differences(sort(held, 1), arange(0, 60).reshape({3, 20})) == "");
  CHECK(test::differences(held, arange(0, 60).reshape({3, 20})) != "");
  CHECK(random::permutation(zeros({0, 2})).shape() == Shape{0, 2});
  CHECK_THROWS_AS(random::permutation(zeros({})), ShapeError);
  CHECK_THROWS_AS(random::shuffle(zeros({})), ShapeError);
  CHECK_THROWS_AS(random::permutation(std::int64_t{1} << 32), UnsupportedError);  // before there is memory for it
  const NDArray wide = arange(0, 3).broadcast_to({2, 3});
  CHECK_THROWS_WITH(random::shuffle(wide), contains("broadcast view") && contains("test_distributions"));

  const auto few = random::choice(10, {2, 5}, false).to_vector<std::int64_t>();
  CHECK(std::set<std::int64_t>(few.begin(), few.end()).size() == 10);
  const NDArray many = random::choice(5, {10000});
  CHECK((min(many).item<int>() == 0 && max(many).item<int>() == 4));
  CHECK(mean(many.astype(float64)).item<double>() == Approx(2).margin(0.1));
  CHECK_THROWS_WITH(random::choice(4, {5}, false), contains("5 of 4 without replacement"));
  CHECK_THROWS_AS(random::choice(0, {1}), ValueError);
  CHECK_THROWS_AS(random::choice(3, {-1}), ShapeError);
  CHECK(random::choice(0, {0}).size() == 0);
}

}  // namespace sluice
