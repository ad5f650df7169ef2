// Elementwise rows whose innermost runs are short, against the same operands laid out as neighbours.
#include <functional>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Pair {
  Shape a, b;
};
// Of two, three, four and more to a row, as many rows as a buffer holds and some more, of which one operand has one.
const std::vector<Pair> k_pairs = {
    {{300, 3}, {3}},
    {{129, 2}, {129, 1}},
    {{5, 70, 4}, {5, 1, 4}},
    {{7, 4, 63}, {7, 1, 63}},
    {{4, 64}, {4, 1}},
    {{2, 130, 2, 5}, {130, 1, 5}},
    {{6, 1, 5, 1}, {1, 9, 1, 4}},
};

NDArray numbers(const Shape& shape, int seed, DType dtype) {
  return (random_array(shape, seed, -9, 9, float32)).astype(dtype);
}

NDArray as_neighbours(const NDArray& x, const Shape& shape) {
  return x.broadcast_to(shape).copy().reshape({-1});
}

}  // namespace

TEST_CASE("Short rows of all types give what neighbours give", "[elementwise]") {
  for (const Pair& pair : k_pairs) {
    for (const DType dtype : {float32, float64, float16, bfloat16, int64, int32, int8, uint8}) {
      CAPTURE(to_string(pair.a), to_string(pair.b), name_of(dtype));
      const NDArray a = numbers(pair.a, 1, dtype), b = numbers(pair.b, 2, dtype);
      const NDArray sum = a + b, one = as_neighbours(a, sum.shape()), other = as_neighbours(b, sum.shape());
      CHECK(differences(sum.reshape({-1}), one + other, {0, 0}) == "");
      CHECK(differences((b - a).reshape({-1}), other - one, {0, 0}) == "");
      CHECK(differences((a < b).reshape({-1}), one < other, {0, 0}) == "");
      CHECK(differences(where(a < b, b, a).reshape({-1}), where(one < other, other, one), {0, 0}) == "");
      NDArray written = sum.copy();
      written *= b;
      CHECK(differences(written.reshape({-1}), (one + other) * other, {0, 0}) == "");
    }
  }
}

TEST_CASE("Parts of short rows are read and written where they stand", "[elementwise]") {
  for (const DType dtype : {float32, float16, int64, int8}) {
    CAPTURE(name_of(dtype));
    const NDArray all = numbers({301, 5}, 1, dtype), some = all.slice(1, 1, 4);
    const NDArray copied = some.copy();
    CHECK(differences(some + 1, copied + 1, {0, 0}) == "");
    CHECK(differences(all.slice(1, 0, 5, 2) * 2, all.slice(1, 0, 5, 2).copy() * 2, {0, 0}) == "");
    NDArray target = all.copy(), part = target.slice(1, 1, 4);
    part += numbers({3}, 2, dtype);
    CHECK(differences(target.slice(1, 1, 4), copied + numbers({3}, 2, dtype), {0, 0}) == "");
    for (const std::int64_t column : {0, 4})
      CHECK(differences(target.slice(1, column, column + 1), all.slice(1, column, column + 1), {0, 0}) == "");
    NDArray apart = all.copy(), odd = apart.slice(1, 1, 5, 2);
    odd += 1;
    CHECK(differences(odd, all.slice(1, 1, 5, 2).copy() + 1, {0, 0}) == "");
    for (const std::int64_t column : {0, 2, 4})
      CHECK(differences(apart.slice(1, column, column + 1), all.slice(1, column, column + 1), {0, 0}) == "");
  }
}

TEST_CASE(
    "Reductions along and across rows of a few elements give what they give of doubles", "[elementwise][reduce]") {
  using Reduce = std::function<NDArray(const NDArray&, const Shape&)>;
  const std::vector<Reduce> all = {
      [](const NDArray& x, const Shape& axes) { return sum(x, axes); },
      [](const NDArray& x, const Shape& axes) { return mean(x, axes); },
      [](const NDArray& x, const Shape& axes) { return max(x, axes); },
      [](const NDArray& x, const Shape& axes) { return min(x, axes); },
      [](const NDArray& x, const Shape& axes) { return norm(x, 2, axes); },
      [](const NDArray& x, const Shape& axes) { return variance(x, axes); },
      [](const NDArray& x, const Shape& axes) { return logsumexp(x, axes); }};
  for (const Shape& shape : {Shape{5000, 3}, Shape{257, 15}, Shape{2, 700, 4}, Shape{3, 129, 64}, Shape{70, 2, 5}}) {
    for (const bool strided : {false, true}) {
      NDArray x = random_array(shape, 1, -2, 2);
      if (strided)
        x = x.slice(0, 0, shape[0], 2);
      x.slice(x.ndim() - 2, 1, 2) += std::numeric_limits<float>::infinity();
      for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(to_string(shape), strided, i);
        for (const Shape& axes : {Shape{shape.ndim() - 1}, Shape{shape.ndim() - 2}, Shape{0}})
          CHECK(differences(all[i](x, axes), all[i](x.astype(float64), axes).astype(float32)) == "");
      }
    }
  }
  const NDArray odd = array(std::vector<float>(90, NAN), {30, 3});
  CHECK(all[2](odd, {0}).to_vector<float>().size() == 3);
  CHECK(sum(isnan(max(odd, {1}))).item<std::int64_t>() == 30);
}

TEST_CASE("Short rows are joined wherever threads are cut", "[concat]") {
  for (const int workers : {1, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (const DType dtype : {uint8, float32, float64}) {
      for (const std::int64_t columns : {1, 2, 3, 4, 7}) {
        CAPTURE(workers, name_of(dtype), columns);
        const NDArray a = numbers({70001, columns}, 1, dtype), b = numbers({70001, 2}, 2, dtype);
        const NDArray both = concat({a, b}, 1);
        CHECK(all(both.slice(1, 0, columns) == a).item<bool>());
        CHECK(all(both.slice(1, columns, columns + 2) == b).item<bool>());
      }
    }
  }
  const NDArray wide = concat({random_array({3, 50000}, 1), random_array({3, 5}, 2)}, 1);
  CHECK(all(wide.slice(1, 0, 50000) == random_array({3, 50000}, 1)).item<bool>());
}

TEST_CASE("A row that stands beside all others is whole where threads begin in the middle of them", "[elementwise]") {
  // Of fewer rows a run than a buffer holds, so that the first run of a thread has few of them and the next one more.
  for (const DType dtype : {float32, float16, int64}) {
    const NDArray all = numbers({1499, 60, 3}, 1, dtype), some = all.slice(1, 0, 53), row = numbers({3}, 2, dtype);
    for (const int workers : {1, 3, 4}) {
      CAPTURE(name_of(dtype), workers);
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      const NDArray sum = some + row;
      CHECK(differences(sum.reshape({-1}), as_neighbours(some, some.shape()) + as_neighbours(row, some.shape())) == "");
    }
  }
}

TEST_CASE("Short rows have the same bits whatever the number of workers", "[elementwise]") {
  std::vector<std::vector<float>> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray a = random_array({30011, 3}, 1), b = random_array({3}, 2), c = random_array({30011, 1}, 3);
    const NDArray y = exp(power(abs(a), b) * c);
    all.push_back(y.to_vector<float>());
    for (const NDArray& reduced : {sum(y, {0}), max(y, {1}), variance(y, {0}), norm(y, 2, {1})}) {
      const auto values = reduced.to_vector<float>();
      all.back().insert(all.back().end(), values.begin(), values.end());
    }
  }
  CHECK((all[0] == all[1]));
  CHECK((all[0] == all[2]));
}
