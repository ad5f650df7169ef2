// pad, roll, flip, tile and repeat: what NumPy gives, for every type and axis, on CPU and GPU.
#include <cstdint>
#include <functional>
#include <limits>
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
constexpr Index k_least = std::numeric_limits<Index>::min(), k_most = std::numeric_limits<Index>::max();

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
  for (const Index shift : std::vector<Index>{0, 1, -2, 5, 12345, -9876, k_least, k_most}) {
    all.push_back(
        {message("roll ", shift),
         same,
         [shift](Index o, Index n) { return modulo(o - shift % n, n); },
         [shift](const NDArray& x, int axis) { return roll(x, shift, axis); }});
  }
  all.push_back(
      {"flip",
       same,
       [](Index o, Index n) { return n - 1 - o; },
       [](const NDArray& x, int axis) { return flip(x, axis); }});
  for (const Index times : {0, 1, 2, 3, 4}) {
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
  return test::random_array(shape, seed, is_unsigned(dtype) || dtype == bool_ ? 0 : -9, 9, dtype);
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

TEST_CASE("pad, roll, flip, tile and repeat of rows about as long as what a CPU moves at once", "[operator][walk]") {
  for (const Index columns : {31, 32, 33, 61, 62, 63, 64, 65, 66, 126, 127, 128, 129, 200}) {
    for (const DType dtype : {int8, bfloat16, float64}) {
      const NDArray x = drawn({3, columns}, dtype);
      for (const Case& how : cases()) {
        CAPTURE(how.name, columns, dtype);
        CHECK(differences(how.call(x, 1), expected(how, x, 1)) == "");
      }
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
  // Results of vectors that end slices and axes, with a rest behind the last one; from within a vector of x.
  for (const DType dtype : {int8, float16, float32, float64}) {
    const NDArray x = drawn({8, 191, 53}, dtype), there = x.to(gpu());
    for (const Case& how : cases()) {
      for (const int axis : {0, 1, 2}) {
        CAPTURE(how.name, dtype, axis);
        CHECK(differences(how.call(there.slice(0, 1, 8), axis), how.call(x.slice(0, 1, 8), axis)) == "");
      }
    }
  }
  // Rows that begin anew within a vector, as far back as a vector is long.
  for (const std::int64_t columns : {14, 15, 30, 31}) {
    for (const DType dtype : {int8, bfloat16}) {
      const NDArray x = drawn({70000 / columns + 1, columns}, dtype), there = x.to(gpu());
      for (const Case& how : cases()) {
        CAPTURE(how.name, dtype, columns);
        CHECK(differences(how.call(there, 1), how.call(x, 1)) == "");
      }
    }
  }
  // Entries twice and four times, with a rest behind the vectors, of any address.
  for (const std::int64_t size : {33000, 33001, 1, 7}) {
    for (const DType dtype : {int8, float16}) {
      const NDArray x = drawn({size + 1}, dtype), there = x.to(gpu());
      for (const std::int64_t times : {2, 3, 4, 8, 9}) {
        CAPTURE(size, dtype, times);
        CHECK(differences(repeat(there, times, 0), repeat(x, times, 0)) == "");
        CHECK(
            differences(repeat(there.slice(0, 1, size + 1), times, 0), repeat(x.slice(0, 1, size + 1), times, 0)) ==
            "");
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

TEST_CASE("pad, tile and repeat refuse axes of more entries than can be counted", "[operator][walk]") {
  const NDArray x = zeros({4});
  CHECK_THROWS_AS(tile(x, {Index{1} << 62}), ShapeError);
  CHECK_THROWS_AS(repeat(x, (Index{1} << 62) + 1), ShapeError);
  for (const PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect}) {
    CHECK_THROWS_AS(pad(x, {{k_most, k_most}}, mode), ShapeError);
    CHECK_THROWS_AS(pad(x, {{0, k_most}}, mode), ShapeError);
  }
  CHECK_THROWS_WITH(tile(x, {Index{1} << 62}), test::contains("tile") && test::contains("4611686018427387904"));
  CHECK_THROWS_WITH(pad(x, {{1, k_most}}), test::contains("pad") && test::contains("9223372036854775807"));
}

TEST_CASE("What pad, roll, flip and tile return is never x itself", "[operator][walk]") {
  const NDArray x = arange(0, 3, 1), number = full({}, 3);
  const auto check = [](const NDArray& from, NDArray y, const Shape& shape) {
    CHECK(y.shape() == shape);
    const auto before = from.to_vector<int>();
    CHECK(y.to_vector<int>() == before);
    y += 1;
    CHECK(from.to_vector<int>() == before);
  };
  for (const PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect})
    check(x, pad(x, {{0, 0}}, mode), {3});
  check(number, pad(number, {{1, 1}}), {});
  check(x, tile(x, {}), {3});
  check(x, tile(x, {1}), {3});
  check(x, tile(x, {1, 1}), {1, 3});
  check(x, roll(x, std::vector<Index>{}, std::vector<int>{}), {3});
  check(x, roll(x, 0), {3});
  check(number, flip(number), {});
  check(x, repeat(x, 1), {3});
  NDArray v = x.copy();
  v.attach_grad();
  {
    const autograd::RecordScope record;
    sum(tile(v, {1, 1}) * 3).backward();
  }
  CHECK(v.grad().to_vector<int>() == std::vector<int>{3, 3, 3});
}

TEST_CASE("Braces without an axis flip all axes", "[operator][walk]") {
  const NDArray x = arange(0, 6, 1).reshape({2, 3});
  CHECK(flip(x, {}).to_vector<int>() == std::vector<int>{5, 4, 3, 2, 1, 0});
  CHECK(flip(x, {0}).to_vector<int>() == std::vector<int>{3, 4, 5, 0, 1, 2});
  CHECK(flip(x, Index{1}).to_vector<int>() == std::vector<int>{2, 1, 0, 5, 4, 3});
}

namespace {

// The gradient of sum(f(x) * weights), where `weights` are whole numbers from -3 to 3, or all 1.
NDArray gradient_of(
    const std::function<NDArray(const NDArray&)>& f, const NDArray& x, bool all_ones, NDArray& weights) {
  NDArray v = x.copy();
  v.attach_grad();
  {
    const autograd::RecordScope record;
    const NDArray y = f(v);
    weights = all_ones ? ones_like(y) : drawn(y.shape(), int32, 3).astype(y.dtype());
    y.backward(weights);
  }
  return v.grad();
}

}  // namespace

TEST_CASE("Gradients of mirror images are of every length and add up in float", "[operator][walk]") {
  for (const Index n : {2, 3, 5}) {
    for (const auto& [before, after] :
         std::vector<std::pair<Index, Index>>{{0, 1}, {1, 1}, {4, 0}, {8, 3}, {1000, 1001}, {0, 30000}}) {
      for (const int axis : {0, 1, 2}) {
        CAPTURE(n, before, after, axis);
        Shape shape{2, 3, 2};
        shape[axis] = n;
        NDArray weights;
        const auto f = [&, a = before, b = after](const NDArray& x) { return padded(x, axis, a, b, PadMode::reflect); };
        const NDArray dx = gradient_of(f, zeros(shape), false, weights);
        test::Dense sums(shape, 0);
        const test::Dense dy(weights);
        for (std::size_t i = 0; i < dy.values.size(); ++i) {
          auto index = test::unravel(weights.shape(), static_cast<Index>(i));
          Index& at = index[static_cast<std::size_t>(axis)];
          const Index far = at - before, period = 2 * (n - 1), in = modulo(far, period);
          at = in < n ? in : period - in;
          sums.values[static_cast<std::size_t>(test::ravel(shape, index))] += dy.values[i];
        }
        CHECK(differences(dx, sums.array()) == "");
      }
    }
  }
  // As long as a million folds, and 6000 ones, which float16 does not count one by one.
  NDArray weights;
  const auto by = [](Index width) {
    return [width](const NDArray& x) { return pad(x, {{width, width}}, PadMode::reflect); };
  };
  CHECK(
      gradient_of(by(1000000), zeros({2}), true, weights).to_vector<double>() == std::vector<double>{1000001, 1000001});
  CHECK(
      gradient_of(by(6000), zeros({2}, {.dtype = float16}), true, weights).to_vector<double>() ==
      std::vector<double>{6000, 6000});  // 6001, rounded
}

TEST_CASE("The gradient of a roll goes back by any shift", "[operator][walk]") {
  for (const Index shift : {k_least, k_least + 1, k_most, Index{-4}, Index{4}}) {
    CAPTURE(shift);
    NDArray weights;
    const NDArray dx = gradient_of([&](const NDArray& x) { return roll(x, shift, 1); }, zeros({2, 7}), false, weights);
    CHECK(differences(roll(dx, shift, 1), weights) == "");
  }
}

TEST_CASE("Operators that move entries go by name", "[operator][walk]") {
  const NDArray x = arange(0, 4, 1);
  const Operator& op = *find_operator("pad");
  const Attributes attributes = parse_attributes(op, "axis=-1, before=1, after=2, value=7.0");
  CHECK(invoke_one(op, {x}, attributes, {}).to_vector<int>() == std::vector<int>{7, 0, 1, 2, 3, 7, 7});
  CHECK(find_operator("roll") != nullptr);
}
