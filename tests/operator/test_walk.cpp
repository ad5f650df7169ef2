// pad, roll, flip, tile and repeat: what NumPy gives, for every type and axis, on CPU and GPU.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using test::differences;

namespace {

using Index = std::int64_t;
using Call = std::function<NDArray(const NDArray&, int axis)>;

/// One way of moving entries: which entry of an axis of n stands at o, -1 for none.
struct Case {
  std::string name;
  std::function<Index(Index n)> extent;
  std::function<Index(Index o, Index n)> from;
  Call call;
};

Index modulo(Index a, Index n) {
  return (a % n + n) % n;
}
// Step by step, to and fro.
Index mirrored(Index o, Index n) {
  Index at = 0, direction = o < 0 ? -1 : 1, forward = direction;
  for (Index left = o < 0 ? -o : o; left > 0 && n > 1; --left) {
    if (at + forward < 0 || at + forward >= n)
      forward = -forward;
    at += forward;
  }
  return at;
}

NDArray padded(const NDArray& x, int axis, Index before, Index after, PadMode mode, Scalar value = 0) {
  std::vector<std::pair<Index, Index>> width(static_cast<std::size_t>(x.ndim()), {0, 0});
  width[static_cast<std::size_t>(axis)] = {before, after};
  return pad(x, width, mode, value);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [a, b] : std::vector<std::pair<Index, Index>>{{2, 3}, {0, 1}, {4, 0}, {11, 17}}) {
    const auto extent = [a = a, b = b](Index n) { return n + a + b; };
    all.push_back(
        {message("pad ", a, " ", b),
         extent,
         [a = a](Index o, Index n) { return o >= a && o < a + n ? o - a : -1; },
         [a = a, b = b](const NDArray& x, int axis) { return padded(x, axis, a, b, PadMode::constant, 1); }});
    all.push_back(
        {message("edges ", a, " ", b),
         extent,
         [a = a](Index o, Index n) { return std::min(std::max<Index>(o - a, 0), n - 1); },
         [a = a, b = b](const NDArray& x, int axis) { return padded(x, axis, a, b, PadMode::edge); }});
    all.push_back(
        {message("mirrored ", a, " ", b),
         extent,
         [a = a](Index o, Index n) { return mirrored(o - a, n); },
         [a = a, b = b](const NDArray& x, int axis) { return padded(x, axis, a, b, PadMode::reflect); }});
  }
  const auto same = [](Index n) { return n; };
  for (const Index shift : {0, 1, -2, 5, 12345, -9876}) {
    all.push_back(
        {message("roll ", shift),
         same,
         [shift](Index o, Index n) { return modulo(o - shift, n); },
         [shift](const NDArray& x, int axis) { return roll(x, shift, axis); }});
  }
  all.push_back(
      {"flip",
       same,
       [](Index o, Index n) { return n - 1 - o; },
       [](const NDArray& x, int axis) { return flip(x, axis); }});
  for (const Index times : {0, 1, 3}) {
    const auto extent = [times](Index n) { return n * times; };
    all.push_back({message("tile ", times), extent, modulo, [times](const NDArray& x, int axis) {
                     std::vector<Index> repeats(static_cast<std::size_t>(x.ndim()), 1);
                     repeats[static_cast<std::size_t>(axis)] = times;
                     return tile(x, repeats);
                   }});
    all.push_back(
        {message("repeat ", times),
         extent,
         [times](Index o, Index) { return o / times; },
         [times](const NDArray& x, int axis) { return repeat(x, times, axis); }});
  }
  return all;
}

NDArray expected(const Case& how, const NDArray& x, int axis) {
  const test::Dense from(x);
  Shape shape = x.shape();
  shape[axis] = how.extent(shape[axis]);
  test::Dense to(shape, 0);
  for (std::size_t i = 0; i < to.values.size(); ++i) {
    auto index = test::unravel(shape, static_cast<Index>(i));
    Index& at = index[static_cast<std::size_t>(axis)];
    at = how.from(at, x.shape()[axis]);
    to.values[i] = at < 0 ? 1 : from.values[static_cast<std::size_t>(test::ravel(x.shape(), index))];
  }
  return to.array();
}

NDArray drawn(const Shape& shape, DType dtype, std::uint64_t seed = 7) {
  return test::random_array(shape, seed, dtype == uint8 || dtype == bool_ ? 0 : -9, 9, dtype);
}

}  // namespace

TEST_CASE("pad, roll, flip, tile and repeat move entries as NumPy does, for every type and axis", "[operator][walk]") {
  for (const Case& how : cases()) {
    for (const DType dtype : test::all_dtypes()) {
      for (const int axis : {0, 1, 2}) {
        CAPTURE(how.name, dtype, axis);
        for (const NDArray& x : {drawn({3, 4, 5}, dtype), drawn({5, 4, 3}, dtype).T(), drawn({1, 1, 1}, dtype)}) {
          const NDArray y = how.call(x, axis);
          CHECK(y.dtype() == dtype);
          CHECK(differences(y, expected(how, x, axis)) == "");
        }
      }
    }
  }
}

TEST_CASE("pad, roll, flip, tile and repeat of large arrays use several threads", "[operator][walk]") {
  const NDArray x = drawn({300, 701}, float32);
  for (const Case& how : cases()) {
    for (const int axis : {0, 1}) {
      CAPTURE(how.name, axis);
      CHECK(differences(how.call(x, axis), expected(how, x, axis)) == "");
    }
  }
}

TEST_CASE("Entries move on a GPU as on the CPU: every unit, odd extents, more than a grid", "[operator][walk][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Case& how : cases()) {
    for (const DType dtype : test::all_dtypes()) {
      // Slices of 16 bytes and more, of less, of one element; an address that is no multiple of 16 bytes.
      for (const Shape& shape : {Shape{3, 5, 16}, Shape{3, 7, 6}, Shape{2, 3, 1}}) {
        const NDArray x = drawn(shape, dtype), there = x.to(gpu());
        for (const int axis : {0, 1, 2}) {
          CAPTURE(how.name, dtype, shape, axis);
          CHECK(differences(how.call(there, axis), how.call(x, axis)) == "");
        }
        CAPTURE(how.name, dtype, shape);
        CHECK(differences(how.call(there.slice(0, 1, shape[0]), 1), how.call(x.slice(0, 1, shape[0]), 1)) == "");
      }
    }
  }
  const NDArray wide = drawn({5, 4100}, int8), there = wide.to(gpu());
  CHECK(differences(roll(there, 3, 1), roll(wide, 3, 1)) == "");
  CHECK(differences(tile(there, {3, 2}), tile(wide, {3, 2})) == "");
}

TEST_CASE("pad, roll, flip, tile and repeat take several axes, or none, as NumPy does", "[operator][walk]") {
  const NDArray x = arange(0, 6, 1).reshape({2, 3});
  const auto values = [](const NDArray& y) { return y.to_vector<int>(); };
  CHECK(values(flip(x)) == std::vector<int>{5, 4, 3, 2, 1, 0});
  CHECK(values(flip(x, {-1})) == std::vector<int>{2, 1, 0, 5, 4, 3});
  CHECK(values(roll(x, 1)) == std::vector<int>{5, 0, 1, 2, 3, 4});
  CHECK(values(roll(x, {1, 1}, {0, 1})) == std::vector<int>{5, 3, 4, 2, 0, 1});
  CHECK(values(roll(x, {1, 1}, {1, 1})) == std::vector<int>{1, 2, 0, 4, 5, 3});
  CHECK(values(repeat(x, 2)) == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  CHECK(tile(x, {2, 1, 2}).shape() == Shape{2, 2, 6});
  CHECK(values(tile(x, {2})) == std::vector<int>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(
      values(pad(x, {{1, 0}, {0, 2}}, PadMode::constant, -1)) ==
      std::vector<int>{-1, -1, -1, -1, -1, 0, 1, 2, -1, -1, 3, 4, 5, -1, -1});
  CHECK(values(pad(x, {{1, 1}}, PadMode::reflect)) == std::vector<int>{4, 3, 4, 5, 4, 1, 0, 1, 2, 1,
                                                                       4, 3, 4, 5, 4, 1, 0, 1, 2, 1});
  CHECK(pad(zeros({}), {{3, 4}}).shape() == Shape{});
  CHECK(pad(zeros({0, 2}), {{1, 2}}, PadMode::constant, 5).to_vector<int>() == std::vector<int>(15, 5));
}

TEST_CASE("pad, roll, flip, tile and repeat name what does not fit", "[operator][walk]") {
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_AS(pad(x, {{1, 1}, {1, 1}, {1, 1}}), ShapeError);
  CHECK_THROWS_AS(pad(x, {{-1, 1}}), ValueError);
  CHECK_THROWS_AS(pad(x.astype(uint8), {{1, 1}}, PadMode::constant, 300), ValueError);
  CHECK_THROWS_AS(pad(zeros({0}), {{1, 1}}, PadMode::edge), ValueError);
  CHECK_THROWS_AS(pad(zeros({0}), {{1, 1}}, PadMode::reflect), ValueError);
  CHECK_THROWS_AS(roll(x, {1}, {0, 1}), ValueError);
  CHECK_THROWS_AS(roll(x, 1, 2), IndexError);
  CHECK_THROWS_AS(flip(x, -3), IndexError);
  CHECK_THROWS_AS(tile(x, {-1}), ValueError);
  CHECK_THROWS_AS(repeat(x, -1), ValueError);
  CHECK_THROWS_AS(flip(NDArray()), Error);
}

TEST_CASE("Operators that move entries go by name", "[operator][walk]") {
  const NDArray x = arange(0, 4, 1);
  const Operator& op = *find_operator("pad");
  const Attributes attributes = parse_attributes(op, "axis=-1, before=1, after=2, value=7.0");
  CHECK(invoke_one(op, {x}, attributes, {}).to_vector<int>() == std::vector<int>{7, 0, 1, 2, 3, 7, 7});
  CHECK(find_operator("roll") != nullptr);
}
