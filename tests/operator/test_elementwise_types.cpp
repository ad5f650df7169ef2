// Promotion, weak numbers, writing in place, and what elementwise operators say about bad input.
#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("two arrays meet in the type that promote() names", "[operator][elementwise][types]") {
  for (const DType a : k_every_dtype) {
    for (const DType b : k_every_dtype) {
      CAPTURE(a, b);
      const NDArray x = ones({3}, {.dtype = a}), y = ones({3}, {.dtype = b});
      const DType common = promote(a, b);
      CHECK((x + y).dtype() == (common == bool_ ? int64 : common));
      CHECK((x + y).to_vector<int>() == std::vector<int>(3, 2));
      CHECK((x / y).dtype() == (is_floating(common) ? common : float32));
      CHECK((x == y).dtype() == bool_);
      CHECK((x == y).to_vector<int>() == std::vector<int>(3, 1));
      CHECK(where(x, x, y).dtype() == common);
    }
  }
  CHECK((ones({1}, {.dtype = int32}) + ones({1})).dtype() == float32);
  CHECK((ones({1}, {.dtype = float16}) + ones({1}, {.dtype = bfloat16})).dtype() == float32);
}

TEST_CASE("a number takes the array's type", "[operator][elementwise][types]") {
  for (const DType dtype : k_every_dtype) {
    CAPTURE(dtype);
    const NDArray x = ones({2}, {.dtype = dtype});
    CHECK((x + 1).dtype() == (dtype == bool_ ? int64 : dtype));
    CHECK((1 + x).dtype() == (dtype == bool_ ? int64 : dtype));
    CHECK((x * 1.5).dtype() == (is_floating(dtype) ? dtype : float32));
    CHECK((x * 1.5).to_vector<double>() == std::vector<double>{1.5, 1.5});
    CHECK((x + true).dtype() == (dtype == bool_ ? int64 : dtype));
    CHECK((x / 2).dtype() == (is_floating(dtype) ? dtype : float32));
    CHECK((3 - x).to_vector<int>() == std::vector<int>{2, 2});
  }
  // Half precision meets the number in float, as a GPU does.
  CHECK((ones({1}, {.dtype = float16}) * 0.1).item<float>() == Half(0.1f));
}

TEST_CASE("comparisons with a number work in every order", "[operator][elementwise][types]") {
  const NDArray x = array<float>({1, 2, 3});
  CHECK((x == 2).to_vector<int>() == std::vector<int>{0, 1, 0});
  CHECK((2 == x).to_vector<int>() == std::vector<int>{0, 1, 0});
  CHECK((x != 2).to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK((2 != x).to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK((x < 2).to_vector<int>() == std::vector<int>{1, 0, 0});
  CHECK((2 < x).to_vector<int>() == std::vector<int>{0, 0, 1});
  CHECK((x <= 2).to_vector<int>() == std::vector<int>{1, 1, 0});
  CHECK((2 <= x).to_vector<int>() == std::vector<int>{0, 1, 1});
  CHECK((x > 2).to_vector<int>() == std::vector<int>{0, 0, 1});
  CHECK((2 > x).to_vector<int>() == std::vector<int>{1, 0, 0});
  CHECK((x >= 2).to_vector<int>() == std::vector<int>{0, 1, 1});
  CHECK((2 >= x).to_vector<int>() == std::vector<int>{1, 1, 0});
  CHECK((x == x).to_vector<int>() == std::vector<int>{1, 1, 1});
  CHECK((x != x).to_vector<int>() == std::vector<int>{0, 0, 0});
}

TEST_CASE(
    "integer numbers that the type cannot hold are refused, and compared as they are",
    "[operator][elementwise][types]") {
  const NDArray x = array<std::uint8_t>({1, 44});
  CHECK_THROWS_AS(x + 300, ValueError);
  CHECK_THROWS_AS(x + -1, ValueError);
  CHECK_THROWS_WITH(x * 300, contains("multiply") && contains("300") && contains("uint8"));
  CHECK((x == 300).to_vector<int>() == std::vector<int>{0, 0});
  CHECK((x < 300).to_vector<int>() == std::vector<int>{1, 1});
  CHECK((x > -1).to_vector<int>() == std::vector<int>{1, 1});
}

TEST_CASE("writing in place keeps the array and its type", "[operator][elementwise][in_place]") {
  NDArray x = array<float>({1, 2, 3, 4}, {2, 2});
  const NDArray same = x, view = x.slice(0, 1, 2);
  x += array<float>({10, 20});
  x *= 2;
  x -= 1;
  x /= array<std::int32_t>({1, 2}, {2, 1});
  CHECK(same.to_vector<float>() == std::vector<float>{21, 43, 12.5, 23.5});
  CHECK(view.to_vector<float>() == std::vector<float>{12.5, 23.5});
  CHECK(x.same(same));

  NDArray half = ones({3}, {.dtype = float16});
  half += array<float>({1, 2, 3});
  CHECK(half.dtype() == float16);
  CHECK(half.to_vector<float>() == std::vector<float>{2, 3, 4});

  NDArray whole = array<std::int32_t>({1, 2});
  whole += 5;
  whole *= array<std::uint8_t>({2, 3});
  CHECK(whole.to_vector<int>() == std::vector<int>{12, 21});
  CHECK_THROWS_AS(whole += 0.5, DTypeError);
  CHECK_THROWS_AS(whole /= 2, DTypeError);
  CHECK_THROWS_WITH(whole += array<float>({1, 2}), contains("float32") && contains("int32") && contains("add"));
  NDArray flag = array<bool>({true, false});
  CHECK_THROWS_AS(flag += 1, DTypeError);
  CHECK(whole.to_vector<int>() == std::vector<int>{12, 21});
}

TEST_CASE("writing in place through views reaches the memory behind them", "[operator][elementwise][in_place]") {
  const NDArray x = zeros({3, 4});
  NDArray column = x.slice(1, 1, 2), rows = x.slice(0, 0, 3, 2), turned = x.T();
  column += 1;
  rows += array<float>({1, 2, 3, 4});
  turned *= array<float>({10, 10, 10, 1}, {4, 1});
  CHECK(x.to_vector<float>() == std::vector<float>{10, 30, 30, 4, 0, 10, 0, 0, 10, 30, 30, 4});
}

TEST_CASE(
    "operands that overlap the destination are read before they are written", "[operator][elementwise][in_place]") {
  const NDArray x = arange(0, 6);
  NDArray tail = x.slice(0, 1, 6);
  tail += x.slice(0, 0, 5);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 3, 5, 7, 9});
  NDArray square = arange(0, 9).reshape({3, 3});
  square += square.T();
  CHECK(square.to_vector<float>() == std::vector<float>{0, 4, 8, 4, 8, 12, 8, 12, 16});
  NDArray one = array<float>({1, 2, 3});
  one -= one[0];
  CHECK(one.to_vector<float>() == std::vector<float>{0, 1, 2});
  one += one;
  CHECK(one.to_vector<float>() == std::vector<float>{0, 2, 4});
}

TEST_CASE("writing in place refuses what cannot be", "[operator][elementwise][in_place]") {
  NDArray x = ones({2, 3});
  CHECK_THROWS_AS(x += ones({3, 2, 3}), ShapeError);
  CHECK_THROWS_WITH(x += ones({4, 2, 3}), contains("add") && contains("(4, 2, 3)") && contains("(2, 3)"));
  NDArray stretched = ones({1, 3}).broadcast_to({2, 3});
  CHECK_THROWS_AS(stretched += 1, ValueError);
  CHECK_THROWS_WITH(stretched += 1, contains("broadcast"));
  NDArray nothing;
  CHECK_THROWS_AS(nothing += 1, ValueError);
  CHECK_THROWS_AS(x += nothing, ValueError);
}

TEST_CASE("elementwise operators name themselves and the values in their errors", "[operator][elementwise][errors]") {
  const NDArray a = ones({2, 3}), b = ones({4});
  CHECK_THROWS_AS(a + b, ShapeError);
  CHECK_THROWS_WITH(a * b, contains("multiply") && contains("(2, 3)") && contains("(4,)"));
  CHECK_THROWS_AS(NDArray() + a, ValueError);
  CHECK_THROWS_WITH(exp(NDArray()), contains("exp") && contains("undefined"));
  CHECK_THROWS_AS(NDArray() + 1, ValueError);
  CHECK_THROWS_AS(where(a, a, NDArray()), ValueError);
  CHECK_THROWS_WITH(where(ones({5}), a, a), contains("where"));
  CHECK_THROWS_AS(sum_to_shape(a, {2, 2}), ShapeError);
  CHECK_THROWS_AS(sum_to_shape(a, {1, 2, 3}), ShapeError);
}

TEST_CASE("sum_to_shape undoes broadcasting", "[operator][elementwise]") {
  const NDArray x = arange(0, 24).reshape({2, 3, 4});
  CHECK(sum_to_shape(x, {2, 3, 4}).same(x));
  CHECK(sum_to_shape(x, {3, 1}).to_vector<float>() == std::vector<float>{60, 92, 124});
  CHECK(sum_to_shape(x, {}).item<float>() == 276);
  CHECK(sum_to_shape(x, {1, 1, 1}).shape() == Shape{1, 1, 1});
  CHECK(sum_to_shape(ones({1, 1, 3}), {3}).to_vector<float>() == std::vector<float>{1, 1, 1});
}
