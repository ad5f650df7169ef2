// Shapes, strides and walks over several strided operands.
#include <limits>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/iterate.h>

#include "tests/support/catch.h"

using namespace sluice;

TEST_CASE("Shapes print, compare and change as lists do") {
  REQUIRE(to_string(Shape{2, 3}) == "(2, 3)");
  REQUIRE(to_string(Shape{4}) == "(4,)");
  REQUIRE(to_string(Shape{}) == "()");
  Shape shape{2, 3};
  shape.insert(1, 7);
  REQUIRE(shape == Shape{2, 7, 3});
  shape.push_back(5);
  shape.erase(0);
  REQUIRE(shape == Shape{7, 3, 5});
  REQUIRE(shape.back() == 5);
  REQUIRE(Shape{}.size() == 1);
  REQUIRE(Shape{3, 0}.size() == 0);
  REQUIRE(Shape::filled(3, 4).size() == 64);
}

TEST_CASE("Shapes refuse too many axes and sizes beyond counting") {
  const std::vector<std::int64_t> nine(9, 1);
  REQUIRE_THROWS_AS(Shape(nine), ShapeError);
  Shape full = Shape::filled(8, 1);
  REQUIRE_THROWS_AS(full.push_back(1), ShapeError);
  REQUIRE_THROWS_AS(full.insert(0, 1), ShapeError);
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  REQUIRE_THROWS_AS((Shape{huge, 2}.size()), ShapeError);
  REQUIRE(Shape{huge, huge, 0}.size() == 0);
}

TEST_CASE("Broadcasting follows NumPy") {
  REQUIRE(broadcast_shape({2, 1}, {3}, "add") == Shape{2, 3});
  REQUIRE(broadcast_shape({}, {4, 5}, "add") == Shape{4, 5});
  REQUIRE(broadcast_shape({0, 1}, {1, 3}, "add") == Shape{0, 3});
  REQUIRE_THROWS_WITH(broadcast_shape({2, 3}, {4}, "add"), sluice::test::contains("add: shapes (2, 3) and (4,)"));
  REQUIRE(broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}, "x") == Shape{0, 1, 0});
  REQUIRE_THROWS_AS(broadcast_strides({3}, {1}, {4}, "x"), ShapeError);
  REQUIRE_THROWS_AS(broadcast_strides({3, 3}, {3, 1}, {3}, "x"), ShapeError);
  REQUIRE(contiguous_strides({2, 3, 4}) == Shape{12, 4, 1});
  REQUIRE(normal_axis(-1, 3, "x") == 2);
  REQUIRE_THROWS_AS(normal_axis(3, 3, "x"), IndexError);
  REQUIRE_THROWS_AS(normal_axis(0, 0, "x"), IndexError);
}

TEST_CASE("Plans merge the axes that all operands step through alike") {
  const Shape shape{2, 3, 4};
  const Shape packed = contiguous_strides(shape);
  const auto whole = detail::plan_strided<2>(shape, {&packed, &packed});
  REQUIRE(whole.ndim == 1);
  REQUIRE(whole.contiguous());
  const Shape rows{0, 4, 1};
  const auto stretched = detail::plan_strided<2>(shape, {&packed, &rows});
  REQUIRE(stretched.ndim == 2);
  REQUIRE(stretched.extents[1] == 12);
  REQUIRE_FALSE(stretched.contiguous());
  REQUIRE(stretched.reach() == 23);
  const auto single = detail::plan_strided<1>(Shape{1, 1}, {&packed});
  REQUIRE(single.size == 1);
  REQUIRE(single.contiguous());
}

TEST_CASE("Walks visit every element of every operand once, in any division") {
  const Shape shape{3, 1, 4, 5};
  const Shape packed = contiguous_strides(shape);
  const Shape permuted{1, 60, 15, 3};
  const Shape stretched{0, 0, 5, 1};
  for (const auto order : {detail::AxisOrder::keep, detail::AxisOrder::free}) {
    const auto plan = detail::plan_strided<3>(shape, {&packed, &permuted, &stretched}, order);
    for (const std::int64_t part : {1, 7, 60}) {
      std::vector<std::array<std::int64_t, 3>> seen(60, {-1, -1, -1});
      for (std::int64_t begin = 0; begin < 60; begin += part) {
        detail::walk_runs(plan, begin, std::min<std::int64_t>(60, begin + part), [&](const auto& run) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            auto& at = seen[static_cast<std::size_t>(run.offset[0] + i * run.step[0])];
            REQUIRE(at[0] == -1);
            at = {0, run.offset[1] + i * run.step[1], run.offset[2] + i * run.step[2]};
          }
        });
      }
      for (std::int64_t a = 0; a < 3; ++a) {
        for (std::int64_t c = 0; c < 4; ++c) {
          for (std::int64_t d = 0; d < 5; ++d) {
            const auto& at = seen[static_cast<std::size_t>(a * 20 + c * 5 + d)];
            REQUIRE(at[1] == a + c * 15 + d * 3);
            REQUIRE(at[2] == c * 5 + d);
          }
        }
      }
    }
  }
}

TEST_CASE("at() counts from both ends and refuses what is not there") {
  const Shape shape{2, 3, 5};
  CHECK(shape.at(0) == 2);
  CHECK(shape.at(-1) == 5);
  CHECK(shape.at(-3) == 2);
  CHECK_THROWS_AS(shape.at(3), IndexError);
  CHECK_THROWS_AS(shape.at(-4), IndexError);
  CHECK_THROWS_AS(Shape{}.at(0), IndexError);
}
