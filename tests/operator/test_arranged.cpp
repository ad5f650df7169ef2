// Axes in another order and of another number, arrays side by side, and new arrays beside others.
#include <functional>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;

namespace {

using Whole = std::vector<int>;

NDArray counted(const Shape& shape) {
  return arange(0, static_cast<double>(shape.size()), 1, {.dtype = int32}).reshape(shape);
}

// Do both name the same memory?
bool is_view_of(const NDArray& view, const NDArray& x) {
  const NDArray before = x.copy();
  fill(view, 77);
  const bool seen = test::differences(x, before, {0, 0}) != "";
  copy_into(before, x);
  return seen;
}

}  // namespace

TEST_CASE("moveaxis puts axes where they are to stand", "[operator][view][arranged]") {
  const NDArray x = counted({2, 3, 4, 5});
  CHECK(moveaxis(x, 0, -1).shape() == Shape{3, 4, 5, 2});
  CHECK(moveaxis(x, -1, 0).shape() == Shape{5, 2, 3, 4});
  CHECK(moveaxis(x, {0, 1}, {-1, -2}).shape() == Shape{4, 5, 3, 2});
  CHECK(moveaxis(x, {2, 0}, {0, 2}).shape() == Shape{4, 3, 2, 5});
  CHECK(moveaxis(x, {3, 1}, {1, 2}).shape() == Shape{2, 5, 3, 4});
  CHECK(test::differences(moveaxis(x, {3, 1}, {1, 2}), x.transpose({0, 3, 1, 2}), {0, 0}) == "");
  CHECK(moveaxis(x, std::vector<int>{}, std::vector<int>{}).shape() == x.shape());
  CHECK(moveaxis(counted({}), std::vector<int>{}, std::vector<int>{}).shape().empty());
  CHECK(moveaxis(zeros({0, 3}), 0, 1).shape() == Shape{3, 0});
  CHECK(is_view_of(moveaxis(x, 1, 3), x));
  CHECK_THROWS_AS(moveaxis(x, 4, 0), IndexError);
  CHECK_THROWS_AS(moveaxis(x, 0, -5), IndexError);
  CHECK_THROWS_AS(moveaxis(x, {0, -4}, {0, 1}), ValueError);
  CHECK_THROWS_WITH(moveaxis(x, {0, 1}, {2, -2}), test::contains("moveaxis") && test::contains("destination"));
  CHECK_THROWS_AS(moveaxis(x, {0, 1}, {2}), ValueError);
  CHECK_THROWS_WITH(moveaxis(NDArray(), 0, 0), test::contains("moveaxis"));
}

TEST_CASE("ravel and atleast_1d to 3d give views where there are some", "[operator][view][arranged]") {
  const NDArray x = counted({2, 3});
  CHECK(ravel(x).to_vector<int>() == Whole{0, 1, 2, 3, 4, 5});
  CHECK(ravel(x.T()).to_vector<int>() == Whole{0, 3, 1, 4, 2, 5});
  CHECK(ravel(x.slice(1, 2, -4, -2)).to_vector<int>() == Whole{2, 0, 5, 3});
  CHECK(ravel(counted({})).shape() == Shape{1});
  CHECK(ravel(zeros({2, 0})).shape() == Shape{0});
  CHECK(is_view_of(ravel(x), x));
  CHECK_FALSE(is_view_of(ravel(x.T()), x));
  CHECK_THROWS_WITH(ravel(NDArray()), test::contains("ravel"));

  const NDArray number = counted({}), row = counted({4}), plane = counted({4, 5}), volume = counted({4, 5, 6});
  CHECK(atleast_1d(number).shape() == Shape{1});
  CHECK(atleast_2d(number).shape() == Shape{1, 1});
  CHECK(atleast_3d(number).shape() == Shape{1, 1, 1});
  CHECK(atleast_1d(row).same(row));
  CHECK(atleast_2d(row).shape() == Shape{1, 4});
  CHECK(atleast_3d(row).shape() == Shape{1, 4, 1});
  CHECK(atleast_2d(plane).same(plane));
  CHECK(atleast_3d(plane).shape() == Shape{4, 5, 1});
  CHECK(atleast_3d(volume).same(volume));
  CHECK(atleast_3d(zeros({0})).shape() == Shape{1, 0, 1});
  CHECK(is_view_of(atleast_3d(plane), plane));
  CHECK_THROWS_WITH(atleast_2d(NDArray()), test::contains("atleast_2d"));
}

TEST_CASE("broadcast_arrays stretches each to the shape of all", "[operator][view][arranged]") {
  const NDArray column = counted({3, 1}), row = counted({4}), number = counted({});
  const auto views = broadcast_arrays({column, row, number});
  REQUIRE(views.size() == 3);
  for (const NDArray& view : views)
    CHECK(view.shape() == Shape{3, 4});
  CHECK(views[0].to_vector<int>() == Whole{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(views[1].to_vector<int>() == Whole{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(views[1].strides() == Shape{0, 1});
  CHECK(broadcast_arrays({row, counted({2, 4})})[0].to_vector<int>() == Whole{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(broadcast_arrays({row})[0].same(row));
  CHECK(broadcast_arrays(std::vector<NDArray>{}).empty());
  CHECK(broadcast_arrays({zeros({0, 1}), zeros({1, 2})})[1].shape() == Shape{0, 2});
  CHECK_THROWS_AS(fill(views[0], 1), ValueError);
  CHECK_THROWS_AS(broadcast_arrays({row, counted({3})}), ShapeError);
  CHECK_THROWS_WITH(broadcast_arrays({row, counted({3})}), test::contains("broadcast_arrays"));
  CHECK_THROWS_WITH(broadcast_arrays({row, NDArray()}), test::contains("broadcast_arrays"));
}

TEST_CASE("rot90, fliplr and flipud turn and mirror planes", "[operator][view][arranged]") {
  const NDArray x = counted({2, 3});
  CHECK(rot90(x).to_vector<int>() == Whole{2, 5, 1, 4, 0, 3});
  CHECK(rot90(x).shape() == Shape{3, 2});
  CHECK(rot90(x, 2).to_vector<int>() == Whole{5, 4, 3, 2, 1, 0});
  CHECK(rot90(x, 3).to_vector<int>() == Whole{3, 0, 4, 1, 5, 2});
  CHECK(rot90(x, -1).to_vector<int>() == Whole{3, 0, 4, 1, 5, 2});
  CHECK(rot90(x, 1, {1, 0}).to_vector<int>() == Whole{3, 0, 4, 1, 5, 2});
  CHECK(rot90(x, -8).same(x));
  CHECK(rot90(counted({2, 2, 2}), 5, {-2, 2}).to_vector<int>() == Whole{1, 3, 0, 2, 5, 7, 4, 6});
  CHECK(rot90(zeros({0, 3})).shape() == Shape{3, 0});
  CHECK(fliplr(x).to_vector<int>() == Whole{2, 1, 0, 5, 4, 3});
  CHECK(flipud(x).to_vector<int>() == Whole{3, 4, 5, 0, 1, 2});
  CHECK(flipud(counted({3})).to_vector<int>() == Whole{2, 1, 0});
  CHECK_THROWS_AS(rot90(x, 1, {0, -2}), ValueError);
  CHECK_THROWS_AS(rot90(x, 1, {0, 2}), IndexError);
  CHECK_THROWS_AS(rot90(counted({3})), IndexError);
  CHECK_THROWS_WITH(fliplr(counted({3})), test::contains("fliplr"));
  CHECK_THROWS_AS(fliplr(counted({3})), IndexError);
  CHECK_THROWS_WITH(flipud(counted({})), test::contains("flipud"));
}

TEST_CASE("hstack, vstack, dstack and column_stack put arrays side by side", "[operator][concat][arranged]") {
  const NDArray a = counted({2}), b = counted({3}), plane = counted({2, 2});
  CHECK(hstack({a, b}).to_vector<int>() == Whole{0, 1, 0, 1, 2});
  CHECK(hstack({plane, counted({2, 1})}).to_vector<int>() == Whole{0, 1, 0, 2, 3, 1});
  CHECK(hstack({counted({}), b}).to_vector<int>() == Whole{0, 0, 1, 2});
  CHECK(vstack({a, plane}).to_vector<int>() == Whole{0, 1, 0, 1, 2, 3});
  CHECK(vstack({counted({}), counted({})}).shape() == Shape{2, 1});
  CHECK(dstack({a, a}).shape() == Shape{1, 2, 2});
  CHECK(dstack({a, a}).to_vector<int>() == Whole{0, 0, 1, 1});
  CHECK(dstack({plane, plane, counted({2, 2, 2})}).shape() == Shape{2, 2, 4});
  CHECK(column_stack({a, plane, a}).to_vector<int>() == Whole{0, 0, 1, 0, 1, 2, 3, 1});
  CHECK(column_stack({counted({})}).shape() == Shape{1, 1});
  CHECK(hstack({a, b.astype(float16)}).dtype() == float16);
  CHECK(hstack({zeros({0}), ones({2})}).shape() == Shape{2});
  CHECK_THROWS_AS(hstack(std::vector<NDArray>{}), ValueError);
  CHECK_THROWS_WITH(vstack({a, b}), test::contains("vstack: array 1 of shape (3,)") && test::contains("(2,)"));
  CHECK_THROWS_AS(vstack({a, b}), ShapeError);
  CHECK_THROWS_AS(hstack({a, plane}), ShapeError);
  CHECK_THROWS_AS(dstack({plane, a}), ShapeError);
  CHECK_THROWS_AS(column_stack({a, b}), ShapeError);
  CHECK_THROWS_WITH(column_stack({a, NDArray()}), test::contains("column_stack"));
}

TEST_CASE("array_split cuts what does not divide evenly", "[operator][concat][arranged]") {
  const NDArray x = counted({8});
  const auto parts = array_split(x, 3);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].to_vector<int>() == Whole{0, 1, 2});
  CHECK(parts[1].to_vector<int>() == Whole{3, 4, 5});
  CHECK(parts[2].to_vector<int>() == Whole{6, 7});
  CHECK(array_split(counted({2, 1}), 3)[2].shape() == Shape{0, 1});
  CHECK(array_split(counted({2, 5}), 2, -1)[1].to_vector<int>() == Whole{3, 4, 8, 9});
  CHECK(array_split(zeros({0}), 2)[1].shape() == Shape{0});
  CHECK(is_view_of(parts[1], x));
  CHECK_THROWS_AS(array_split(x, 0), ValueError);
  CHECK_THROWS_WITH(array_split(x, -1), test::contains("array_split: -1"));
  CHECK_THROWS_AS(array_split(x, 2, 1), IndexError);
}

TEST_CASE("New arrays are of the type, device and engine of another one", "[operator][view][arranged]") {
  for (const DType dtype : test::all_dtypes()) {
    const NDArray x = zeros({2, 3}, {.dtype = dtype});
    CHECK(new_zeros(x, {4}).dtype() == dtype);
    CHECK(new_ones(x, {2, 0}).shape() == Shape{2, 0});
    CHECK(new_ones(x, {2}).to_vector<double>() == std::vector<double>{1, 1});
  }
  const NDArray x = zeros({3}, {.dtype = uint8});
  CHECK(new_full(x, {2}, 7).to_vector<int>() == Whole{7, 7});
  CHECK(new_full(x, {}, 2.5, float32).item<float>() == 2.5f);
  CHECK(new_empty(x, {5, 2}).shape() == Shape{5, 2});
  CHECK(new_empty(x, {1}, int64).dtype() == int64);
  CHECK_THROWS_AS(new_full(x, {2}, 300), ValueError);
  CHECK_THROWS_AS(new_zeros(x, {-1}), ShapeError);
  CHECK_THROWS_WITH(new_ones(NDArray(), {1}), test::contains("new_ones"));
  Engine other;
  const NDArray elsewhere = [&] {
    const EngineScope scope(other);
    return zeros({2});
  }();
  CHECK(&new_zeros(elsewhere, {3}).engine() == &elsewhere.engine());
  CHECK(&new_empty(elsewhere, {3}).engine() == &elsewhere.engine());
}

TEST_CASE("Arranged arrays have gradients and go through graphs", "[operator][view][arranged][gradient]") {
  const NDArray x = test::random_array({2, 3, 4}, 1, -1, 1, float64), y = test::random_array({3, 4}, 2, -1, 1, float64);
  const NDArray column = test::random_array({2, 1, 1}, 3, -1, 1, float64);
  const std::vector<test::Function> functions = {
      [](const auto& v) {
        return moveaxis(v[0], {0, 2}, {1, 0}) * 2;
      },
      [](const auto& v) { return ravel(moveaxis(v[0], 0, 1)) * 2; },
      [](const auto& v) { return atleast_3d(v[1]) * 2; },
      [](const auto& v) {
        return broadcast_arrays({v[1], v[2]})[0] * broadcast_arrays({v[0], v[1]})[1];
      },
      [](const auto& v) {
        return broadcast_arrays({v[2], v[1]})[0] * v[0];
      },
      [](const auto& v) {
        return rot90(v[0], 1, {0, 2});
      },
      [](const auto& v) { return fliplr(v[1]) + rot90(v[1], 2); },
      [](const auto& v) {
        return hstack({v[1], v[1] * 2});
      },
      [](const auto& v) {
        return vstack({ravel(v[1]), ravel(v[1]) * 3});
      },
      [](const auto& v) {
        return dstack({v[1], v[1] * 2});
      },
      [](const auto& v) {
        return column_stack({v[1], v[1].slice(1, 0, 1)});
      },
      [](const auto& v) { return array_split(v[0], 3, 2)[0] * 2; },
      [](const auto& v) { return v[1] * new_full(v[1], {4}, 3); }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CAPTURE(i);
    CHECK(
        test::gradient_differences(
            [&](const auto& v) { return functions[i](v) + 0 * (sum(v[0]) + sum(v[1]) + sum(v[2])); }, {x, y, column}) ==
        "");
    CHECK(test::traced_differences(functions[i], {x, y, column}) == "");
  }
}
