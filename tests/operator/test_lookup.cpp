// What searchsorted and nonzero are asked for by other names, series of one row, softmin and glu.
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

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

using Numbers = std::vector<double>;
using Whole = std::vector<int>;

Whole found(const NDArray& x, const NDArray& values, bool invert = false) {
  return isin(x, values, invert).to_vector<int>();
}

}  // namespace

TEST_CASE("isin says which elements are among others", "[operator][order][lookup]") {
  const NDArray x = array<int>({3, 1, 4, 1, 5, 9}, {2, 3}), values = array<int>({9, 1, 7, 1}, {2, 2});
  CHECK(isin(x, values).shape() == Shape{2, 3});
  CHECK(isin(x, values).dtype() == bool_);
  CHECK(found(x, values) == Whole{0, 1, 0, 1, 0, 1});
  CHECK(found(x, values, true) == Whole{1, 0, 1, 0, 1, 0});
  CHECK(found(x.T(), values.T()) == Whole{0, 1, 1, 0, 0, 1});
  CHECK(found(x, zeros({0}, {.dtype = int32})) == Whole(6, 0));
  CHECK(found(x, array<int>({4}).squeeze(0)) == Whole{0, 0, 1, 0, 0, 0});
  CHECK(found(array<int>({7}).squeeze(0), values) == Whole{1});
  CHECK(isin(zeros({0, 2}), ones({3})).shape() == Shape{0, 2});
  CHECK(found(array<double>({k_nan, -0.0, k_inf, 2.5}), array<double>({k_nan, 0, k_inf})) == Whole{0, 1, 1, 0});
  CHECK(found(array<double>({k_nan}), array<double>({k_nan}), true) == Whole{1});
  CHECK(found(array<int>({1, 2}), array<float>({2, 2.5f})) == Whole{0, 1});
  for (const DType dtype : test::all_dtypes()) {
    CAPTURE(dtype);
    CHECK(found(array<int>({0, 1}).astype(dtype), array<int>({1}).astype(dtype)) == Whole{0, 1});
  }
  CHECK_THROWS_AS(isin(x, NDArray()), ValueError);
  CHECK(test::traced_differences([](const auto& v) { return isin(v[0], v[1]); }, {x, values}) == "");
}

TEST_CASE("interp runs straight from place to place", "[operator][order][lookup]") {
  const NDArray xp = array<double>({1, 2, 4}), fp = array<double>({10, 20, -20});
  const NDArray x = array<double>({0, 1, 1.5, 2, 3, 4, 5, k_nan, k_inf, -k_inf});
  const Numbers y = interp(x, xp, fp).to_vector<double>();
  CHECK(Numbers(y.begin(), y.begin() + 7) == Numbers{10, 10, 15, 20, 0, -20, -20});
  CHECK(std::isnan(y[7]));
  CHECK(y[8] == -20);
  CHECK(y[9] == 10);
  const Numbers apart = interp(x, xp, fp, {.left = -1, .right = k_inf}).to_vector<double>();
  CHECK(apart[0] == -1);
  CHECK(apart[1] == 10);
  CHECK(apart[5] == -20);
  CHECK(apart[6] == k_inf);
  CHECK(interp(array<double>({3}).squeeze(0), xp, fp).item<double>() == 0);
  CHECK(interp(array<double>({3}).squeeze(0), xp, fp, {.left = 0, .right = 1}).shape().empty());
  CHECK(interp(array<double>({1, 9}), array<double>({5}), array<double>({7})).to_vector<double>() == Numbers{7, 7});
  // Infinite numbers: at their own places, and between two of a kind.
  const NDArray odd = array<double>({k_inf, k_inf, 3});
  const Numbers beside = interp(array<double>({1, 1.5, 2, 3, 4}), xp, odd).to_vector<double>();
  CHECK(beside[0] == k_inf);
  CHECK(beside[1] == k_inf);
  CHECK(beside[2] == k_inf);
  CHECK(beside[4] == 3);
  CHECK(interp(array<int>({3}), array<int>({1, 5}), array<int>({0, 1})).dtype() == float32);
  CHECK(interp(array<int>({3}), array<int>({1, 5}), array<int>({0, 1})).item<float>() == 0.5f);
  CHECK(interp(x.astype(float16), xp.astype(float16), fp.astype(float16)).dtype() == float16);
  CHECK(interp(zeros({0, 3}), xp, fp).shape() == Shape{0, 3});
  CHECK_THROWS_AS(interp(x, xp, zeros({2})), ShapeError);
  CHECK_THROWS_AS(interp(x, xp.expand_dims(0), fp.expand_dims(0)), ShapeError);
  CHECK_THROWS_WITH(interp(x, zeros({0}), zeros({0})), test::contains("interp"));
  CHECK_THROWS_AS(interp(x, zeros({0}), zeros({0})), ValueError);
  const NDArray inside = test::random_array({2, 3}, 3, 1.05, 3.9, float64);
  const auto f = [](const std::vector<NDArray>& v) { return interp(v[0], v[1], v[2], {.left = 3}); };
  CHECK(test::gradient_differences(f, {inside, xp, fp}) == "");
  CHECK(test::traced_differences(f, {x, xp, fp}) == "");
}

TEST_CASE("argwhere and flatnonzero say where something is", "[operator][order][lookup]") {
  const NDArray x = array<int>({0, 3, 0, 4, 5, 0}, {2, 3});
  CHECK(argwhere(x).to_vector<int>() == Whole{0, 1, 1, 0, 1, 1});
  CHECK(flatnonzero(x).to_vector<int>() == Whole{1, 3, 4});
  CHECK(flatnonzero(x.T()).to_vector<int>() == Whole{1, 2, 3});
  CHECK(flatnonzero(x).dtype() == int64);
  CHECK(flatnonzero(zeros({2, 2})).shape() == Shape{0});
  CHECK(flatnonzero(ones({})).to_vector<int>() == Whole{0});
  CHECK(flatnonzero(zeros({0, 3})).shape() == Shape{0});
  CHECK_THROWS_WITH(argwhere(NDArray()), test::contains("argwhere"));
  CHECK_THROWS_WITH(flatnonzero(NDArray()), test::contains("flatnonzero"));
}

TEST_CASE("ediff1d and vander make series of a row", "[operator][scan][series]") {
  const NDArray x = array<int>({1, 2, 4, 7, 0, 3}, {2, 3});
  CHECK(ediff1d(x).to_vector<int>() == Whole{1, 2, 3, -7, 3});
  CHECK(
      ediff1d(x, array<int>({8, 9}), array<int>({-1}).squeeze(0)).to_vector<int>() == Whole{-1, 1, 2, 3, -7, 3, 8, 9});
  CHECK(ediff1d(array<int>({5})).shape() == Shape{0});
  CHECK(ediff1d(zeros({0}), ones({1})).to_vector<float>() == std::vector<float>{1});
  CHECK_THROWS_WITH(ediff1d(NDArray()), test::contains("ediff1d"));

  const NDArray row = array<int>({1, 2, 0, 5});
  CHECK(vander(row, 3).to_vector<int>() == Whole{1, 1, 1, 4, 2, 1, 0, 0, 1, 25, 5, 1});
  CHECK(vander(row, 3).dtype() == int64);
  CHECK(vander(row, 2, true).to_vector<int>() == Whole{1, 1, 1, 2, 1, 0, 1, 5});
  CHECK(vander(row).shape() == Shape{4, 4});
  CHECK(vander(row, 1).to_vector<int>() == Whole{1, 1, 1, 1});
  CHECK(vander(row, 0).shape() == Shape{4, 0});
  CHECK(vander(ones({2, 3})).shape() == Shape{2, 3, 3});
  CHECK(vander(zeros({0})).shape() == Shape{0, 0});
  CHECK(vander(row.astype(float16), 2).dtype() == float16);
  CHECK_THROWS_AS(vander(row, -1), ValueError);
  CHECK_THROWS_WITH(vander(ones({})), test::contains("vander"));
  const NDArray at = array<double>({0, 0.5, -2});
  for (const test::Function& f : std::vector<test::Function>{
           [](const auto& v) { return vander(v[0]); },
           [](const auto& v) { return vander(v[0], 4, true); },
           [](const auto& v) { return ediff1d(v[0], v[0] * 2); }}) {
    CHECK(test::gradient_differences(f, {at}) == "");
    CHECK(test::traced_differences(f, {at}) == "");
  }
}

TEST_CASE("softmin and glu are made of softmax and sigmoid", "[operator][softmax][composed]") {
  const NDArray x = test::random_array({2, 3, 4}, 7, -2, 2, float64);
  CHECK(softmin(array<double>({0, std::log(3.0)})).to_vector<double>()[0] == Approx(0.75));
  const NDArray gate = array<double>({2, -3, 0, std::log(3.0)}, {1, 4});
  const Numbers y = glu(gate).to_vector<double>();
  CHECK(y[0] == 1);
  CHECK(y[1] == Approx(-2.25));
  CHECK(glu(zeros({0, 4})).shape() == Shape{0, 2});
  CHECK(glu(zeros({2, 0})).shape() == Shape{2, 0});
  for (const int axis : {0, 2, -1}) {
    const auto of_glu = [=](const std::vector<NDArray>& v) { return glu(v[0], axis); };
    const auto of_softmin = [=](const std::vector<NDArray>& v) { return softmin(v[0], axis); };
    CHECK(test::differences(of_softmin({x}), softmax(-x, axis)) == "");
    CHECK(test::gradient_differences(of_glu, {x}) == "");
    CHECK(test::gradient_differences(of_softmin, {x}) == "");
    CHECK(test::traced_differences(of_glu, {x}) == "");
    CHECK(test::traced_differences(of_softmin, {x}) == "");
  }
  CHECK_THROWS_AS(glu(x, 1), ShapeError);
  CHECK_THROWS_WITH(glu(x, 1), test::contains("glu") && test::contains("(2, 3, 4)"));
  CHECK_THROWS_AS(glu(x, 3), IndexError);
  CHECK_THROWS_WITH(softmin(ones({2}, {.dtype = int32})), test::contains("softmin") && test::contains("int32"));
  CHECK_THROWS_AS(glu(ones({2}, {.dtype = int32})), DTypeError);
}
