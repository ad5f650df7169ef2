// Elementwise operators on operands of every layout: transposed, sliced, broadcast, empty, without axes, large.
#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Layout {
  const char* name;
  NDArray a, b;
};

std::vector<Layout> layouts(DType dtype, double low, double high) {
  const double from = dtype == uint8 && low < 0 ? 0 : low;
  const auto draw = [&](const Shape& shape, std::uint64_t seed) {
    return random_array(shape, seed, from, high, dtype);
  };
  return {
      {"contiguous", draw({6, 50}, 1), draw({6, 50}, 2)},
      {"transposed", draw({50, 6}, 3).T(), draw({6, 50}, 4)},
      {"both transposed", draw({50, 6}, 5).T(), draw({50, 6}, 6).T()},
      {"sliced with a step", draw({6, 150}, 7).slice(1, 1, 150, 3), draw({6, 50}, 8)},
      {"a row", draw({6, 50}, 9), draw({50}, 10)},
      {"a column", draw({6, 1}, 11), draw({6, 50}, 12)},
      {"row and column", draw({50}, 13), draw({6, 1}, 14)},
      {"no axes", draw({6, 50}, 15), draw({}, 16)},
      {"no axes at all", draw({}, 17), draw({}, 18)},
      {"stretched views", draw({1, 50}, 19).broadcast_to({6, 50}), draw({6, 1}, 20).broadcast_to({6, 50})},
      {"four axes", draw({2, 3, 1, 25}, 21).swapaxes(0, 1), draw({3, 1, 2, 1}, 22)},
      {"longer than a buffer", draw({3, 1030}, 23).slice(1, 3, 1030), draw({1027}, 24)},
  };
}

// The same values, contiguous and of the full shape.
NDArray spread(const NDArray& x, const Shape& shape) {
  return x.broadcast_to(shape).copy();
}

}  // namespace

TEST_CASE("binary rows give the same for every layout of the operands", "[operator][elementwise]") {
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : {int32, float16, float32, float64, uint8}) {
      for (const Layout& layout : layouts(dtype, row.low, row.high)) {
        CAPTURE(row.name, dtype, layout.name);
        const NDArray y = row(layout.a, layout.b);
        const NDArray want = row(spread(layout.a, y.shape()), spread(layout.b, y.shape()));
        CHECK(differences(y, want) == "");
      }
    }
  }
}

TEST_CASE("unary rows give the same for every layout of the operand", "[operator][elementwise]") {
  for (const UnaryCase& row : unary_cases()) {
    for (const DType dtype : {int32, bfloat16, float32}) {
      for (const Layout& layout : layouts(dtype, row.low, row.high)) {
        CAPTURE(row.name, dtype, layout.name);
        CHECK(differences(row(layout.a), row(layout.a.copy())) == "");
      }
    }
  }
}

TEST_CASE("where gives the same for every layout of the operands", "[operator][elementwise]") {
  for (const Layout& layout : layouts(float32, -1, 1)) {
    CAPTURE(layout.name);
    const NDArray y = where(layout.a > 0, layout.a, layout.b);
    const NDArray a = spread(layout.a, y.shape()), b = spread(layout.b, y.shape());
    CHECK(differences(y, where(a > 0, a, b)) == "");
  }
}

TEST_CASE("elementwise operators on empty arrays give empty arrays, and gradients too", "[operator][elementwise]") {
  for (const UnaryCase& row : unary_cases()) {
    CAPTURE(row.name);
    CHECK(row(empty({0, 3})).shape() == Shape{0, 3});
  }
  for (const BinaryCase& row : binary_cases()) {
    CAPTURE(row.name);
    CHECK(row(empty({0, 3}), empty({3})).shape() == Shape{0, 3});
    CHECK(row(empty({4, 0}), empty({1, 1})).shape() == Shape{4, 0});
    if (!row.has_gradient())
      continue;
    NDArray a = empty({4, 0}), b = ones({4, 1});
    a.attach_grad();
    b.attach_grad();
    {
      const autograd::RecordScope record;
      row(a, b).backward();
    }
    CHECK(a.grad().shape() == Shape{4, 0});
    CHECK(b.grad().to_vector<float>() == std::vector<float>(4, 0));
  }
}

TEST_CASE("elementwise operators give every element of a large array", "[operator][elementwise]") {
  const NDArray a = arange(0, 300001, 1, {.dtype = int64}), b = arange(300001, 600002, 1, {.dtype = int64});
  const auto sum = (a + b).to_vector<std::int64_t>();
  bool right = true;
  for (std::size_t i = 0; i < sum.size(); ++i)
    right = right && sum[i] == 300001 + 2 * static_cast<std::int64_t>(i);
  CHECK(right);
}

TEST_CASE("values that are not finite follow IEEE 754 and NumPy", "[operator][elementwise]") {
  const NDArray x = array<float>({NAN, INFINITY, -INFINITY, 0, -1});
  CHECK(isnan(x).to_vector<int>() == std::vector<int>{1, 0, 0, 0, 0});
  CHECK(isinf(x).to_vector<int>() == std::vector<int>{0, 1, 1, 0, 0});
  CHECK(isfinite(x).to_vector<int>() == std::vector<int>{0, 0, 0, 1, 1});
  const auto relued = relu(x).to_vector<float>();
  CHECK(std::isnan(relued[0]));
  CHECK(relued[1] == INFINITY);
  CHECK(std::vector<float>(relued.begin() + 2, relued.end()) == std::vector<float>{0, 0, 0});
  CHECK(std::isnan(maximum(x, 0).to_vector<float>()[0]));
  CHECK(std::isnan(minimum(0, x).to_vector<float>()[0]));
  CHECK(std::isnan(sign(x).to_vector<float>()[0]));
  CHECK(sigmoid(array<float>({-1000, 1000})).to_vector<float>() == std::vector<float>{0, 1});
  CHECK(softplus(array<float>({-1000, 1000})).to_vector<float>() == std::vector<float>{0, 1000});
  CHECK(
      logaddexp(array<float>({1000, -INFINITY}), array<float>({0, -INFINITY})).to_vector<float>() ==
      std::vector<float>{1000, -INFINITY});
  CHECK(round(array<float>({0.5, 1.5, 2.5, -0.5})).to_vector<float>() == std::vector<float>{0, 2, 2, 0});
}

TEST_CASE("integers wrap around, divide safely and have powers", "[operator][elementwise]") {
  const NDArray edge = array<std::int32_t>({2147483647, -2147483647 - 1, 0});
  CHECK((edge + 1).to_vector<std::int32_t>() == std::vector<std::int32_t>{-2147483647 - 1, -2147483647, 1});
  CHECK((-edge).to_vector<std::int32_t>() == std::vector<std::int32_t>{-2147483647, -2147483647 - 1, 0});
  CHECK(abs(edge).to_vector<std::int32_t>() == std::vector<std::int32_t>{2147483647, -2147483647 - 1, 0});
  CHECK((edge * edge).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 0, 0});
  CHECK((edge % 0).to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 0, 0});
  CHECK((edge % -1).to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 0, 0});
  CHECK(
      (array<std::int32_t>({7, -7, 7, -7}) % array<std::int32_t>({3, 3, -3, -3})).to_vector<int>() ==
      std::vector<int>{1, 2, -2, -1});
  CHECK(
      (array<double>({7, -7, 7, -7}) % array<double>({3, 3, -3, -3})).to_vector<double>() ==
      std::vector<double>{1, 2, -2, -1});
  CHECK(
      power(array<std::int32_t>({2, -3, 0, 5}), array<std::int32_t>({10, 3, 0, -1})).to_vector<int>() ==
      std::vector<int>{1024, -27, 1, 0});
  CHECK(
      power(array<std::int32_t>({1, -1, -1}), array<std::int32_t>({-5, -4, -3})).to_vector<int>() ==
      std::vector<int>{1, 1, -1});
  CHECK((array<std::int32_t>({1, 0, -1}) / 0).to_vector<float>()[0] == INFINITY);
  CHECK((array<std::uint8_t>({250, 3}) + array<std::uint8_t>({10, 4})).to_vector<int>() == std::vector<int>{4, 7});
}
