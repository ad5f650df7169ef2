// Choices by weights: how often each comes up, in which order, with and without replacement, the same bits everywhere.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Places = std::vector<std::int64_t>;

Places places(const NDArray& x) {
  return x.to_vector<std::int64_t>();
}

// Beyond so many deviations from what is expected a share lies once in a million times.
bool is_near(double share, double p, double draws) {
  return std::abs(share - p) < 5 * std::sqrt(p * (1 - p) / draws);
}

}  // namespace

TEST_CASE("Choices come up by their weights, with replacement", "[random][choice]") {
  random::seed(3);
  const NDArray weights = array<double>({1, 0, 3, 4});
  const NDArray drawn = random::choice(weights, {100, 200});
  CHECK(drawn.shape() == Shape{100, 200});
  CHECK(drawn.dtype() == int64);
  const Places counts = places(bincount(drawn, 4));
  CHECK(counts[1] == 0);
  for (const auto& [at, p] : {std::pair{0, 0.125}, {2, 0.375}, {3, 0.5}}) {
    CAPTURE(at);
    CHECK(is_near(static_cast<double>(counts[static_cast<std::size_t>(at)]) / 20000, p, 20000));
  }
}

TEST_CASE("Without replacement one is drawn after the other, by the weights that are left", "[random][choice]") {
  random::seed(4);
  const std::vector<double> weights{1, 2, 3};
  std::map<Places, int> counts;
  constexpr int turns = 4000;
  for (int turn = 0; turn < turns; ++turn)
    ++counts[places(random::choice(array(weights, {3}), {2}, false))];
  CHECK(counts.size() == 6);
  for (const auto& [pair, count] : counts) {
    const double first = weights[static_cast<std::size_t>(pair[0])],
                 second = weights[static_cast<std::size_t>(pair[1])];
    const double p = first / 6 * second / (6 - first);
    CAPTURE(pair[0], pair[1], count, p);
    CHECK(is_near(static_cast<double>(count) / turns, p, turns));
  }
  const Places all = places(random::choice(array(weights, {3}).astype(float16), {3}, false));
  CHECK(std::set<std::int64_t>(all.begin(), all.end()).size() == 3);
}

TEST_CASE("What has no weight is never drawn: -1 where nothing else is left", "[random][choice]") {
  constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();
  random::seed(5);
  const Places drawn = places(random::choice(array<double>({0, -1, 2, k_nan, k_inf, 1}), {6}, false));
  CHECK(std::set<std::int64_t>(drawn.begin(), drawn.begin() + 2) == std::set<std::int64_t>{2, 5});
  CHECK(Places(drawn.begin() + 2, drawn.end()) == Places(4, -1));
  CHECK(places(random::choice(zeros({3}), {2}, false)) == Places{-1, -1});
  CHECK(places(random::choice(zeros({3}), {2})) == Places{-1, -1});
  // Ratios count, however large or small all of them are.
  for (const double scale : {1e-290, 1e290}) {
    CAPTURE(scale);
    random::seed(6);
    const Places scaled = places(random::choice(array<double>({1, 2, 3, 4}) * scale, {4}, false));
    random::seed(6);
    CHECK(scaled == places(random::choice(array<double>({1, 2, 3, 4}), {4}, false)));
  }
  CHECK(random::choice(ones({3}), {0, 2}, false).shape() == Shape{0, 2});
  CHECK_THROWS_WITH(random::choice(ones({3}), {4}, false), contains("4 of 3 without replacement"));
  CHECK_THROWS_AS(random::choice(ones({3, 2}), {1}), ShapeError);
  CHECK_THROWS_AS(random::choice(ones({3}).astype(int32), {1}), DTypeError);
  CHECK_THROWS_AS(random::choice(zeros({0}), {1}), ValueError);
  // Weights whose memory is never asked for.
  const NDArray many = ones({1}).broadcast_to({std::int64_t{1} << 32});
  CHECK_THROWS_AS(random::choice(many, {1}, false), UnsupportedError);
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{}}) {
    CHECK_THROWS_AS(random::multinomial(5, zeros(shape)), ShapeError);
    CHECK_THROWS_AS(call("sample_multinomial", {zeros(shape)}, "n=5"), ShapeError);
  }
  CHECK(random::multinomial(5, zeros({0, 3})).shape() == Shape{0, 3});
}

TEST_CASE("Choices, orders and counts are operators by name", "[random][choice]") {
  const auto same = [](const auto& f, const auto& g) {
    random::seed(8);
    const NDArray a = f();
    random::seed(8);
    return difference(a, g());
  };
  const NDArray weights = array<float>({1, 2, 3}), x = arange(0, 12).reshape({4, 3});
  CHECK(
      same(
          [&] { return call("random_choice", {weights}, "shape=(2,), replace=false"); },
          [&] { return random::choice(weights, {2}, false); }) == "");
  CHECK(
      same(
          [&] { return call("random_choice", {}, "n=9, shape=(2, 2)"); },
          [&] {
            return random::choice(9, {2, 2});
          }) == "");
  CHECK(same([&] { return call("random_permutation", {}, "n=9"); }, [&] { return random::permutation(9); }) == "");
  CHECK(same([&] { return call("random_permutation", {x}); }, [&] { return random::permutation(x); }) == "");
  CHECK(
      same(
          [&] { return call("sample_multinomial", {weights}, "n=50"); },
          [&] { return random::multinomial(50, weights); }) == "");
}

TEST_CASE("Choices are the same on a GPU", "[random][choice][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray weights = random_array({1000}, 1, 0, 1, float32);
  for (const bool replace : {true, false}) {
    CAPTURE(replace);
    random::seed(9);
    const NDArray here = random::choice(weights, {300}, replace);
    random::seed(9);
    CHECK(differences(random::choice(weights.to(gpu()), {300}, replace).to(cpu()), here, {0, 0}) == "");
  }
}
