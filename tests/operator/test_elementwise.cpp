// Every row of the elementwise tables: values against the C++ library in double, gradients against finite differences,
// every type it takes.
#include "tests/operator/elementwise_references.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Draws that suit the type: integers stay away from a divisor of zero where a row divides.
NDArray draw(const Shape& shape, std::uint64_t seed, double low, double high, DType dtype) {
  return random_array(shape, seed, is_unsigned(dtype) && low < 0 ? 0 : low, high, dtype);
}

NDArray expected_unary(const UnaryCase& row, const NDArray& x) {
  const DType type = result_type(row.kind, x.dtype());
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values)
    value = wrapped(type, unary_reference(row, value));
  return array(values, x.shape());
}

NDArray expected_binary(const BinaryCase& row, const NDArray& a, const NDArray& b) {
  const DType type = result_type(row.kind, a.dtype());
  const auto u = a.to_vector<double>(), v = b.to_vector<double>();
  std::vector<double> values(u.size());
  for (std::size_t i = 0; i < u.size(); ++i)
    values[i] = wrapped(type, binary_reference(row, u[i], v[i]));
  const std::string name = row.name;
  if ((name == "mod" || name == "fmod" || name == "floor_divide") && !is_floating(type)) {
    for (std::size_t i = 0; i < u.size(); ++i)
      values[i] = v[i] == 0 ? 0 : values[i];
  }
  return array(values, a.shape());
}

}  // namespace

TEST_CASE("every unary row gives what the C++ library gives, in every type", "[operator][elementwise]") {
  for (const UnaryCase& row : unary_cases()) {
    for (const DType dtype : k_every_dtype) {
      CAPTURE(row.name, dtype);
      const NDArray x = draw({7, 43}, 11, row.low, row.high, dtype);
      const NDArray y = row(x);
      CHECK(y.dtype() == result_type(row.kind, dtype));
      CHECK(differences(y, expected_unary(row, x), tolerance_of(y.dtype())) == "");
    }
  }
}

TEST_CASE("every binary row gives what the C++ library gives, in every type", "[operator][elementwise]") {
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : k_every_dtype) {
      CAPTURE(row.name, dtype);
      const NDArray a = draw({5, 61}, 12, row.low, row.high, dtype);
      const NDArray b = draw({5, 61}, 13, row.low, row.high, dtype);
      const NDArray y = row(a, b);
      CHECK(y.dtype() == result_type(row.kind, dtype));
      CHECK(differences(y, expected_binary(row, a, b), tolerance_of(y.dtype())) == "");
    }
  }
}

TEST_CASE("a number in either place of a binary row acts like an array of it", "[operator][elementwise]") {
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : k_every_dtype) {
      CAPTURE(row.name, dtype);
      const NDArray a = draw({3, 17}, 14, row.low, row.high, dtype);
      const DType beside = is_floating(dtype) ? dtype : is_integer(dtype) ? dtype : int64;
      const NDArray two = full({}, 2, {.dtype = beside});
      CHECK(row(a, 2).dtype() == row(a.astype(beside), two).dtype());
      CHECK(differences(row(a, 2), row(a.astype(beside), two)) == "");
      CHECK(differences(row(2, a), row(two, a.astype(beside))) == "");
    }
  }
}

TEST_CASE("gradients of every unary row agree with finite differences", "[operator][elementwise][gradient]") {
  for (const UnaryCase& row : unary_cases()) {
    if (!row.has_gradient())
      continue;
    CAPTURE(row.name);
    const NDArray x = random_array({4, 9}, 15, row.low, row.high, float64);
    CHECK(gradient_differences([&](const auto& in) { return row(in[0]); }, {x}) == "");
    // The other sign of the domain, where the row has one (relu, abs).
    if (std::string(row.name) == "relu" || std::string(row.name) == "abs" || std::string(row.name) == "softsign")
      CHECK(gradient_differences([&](const auto& in) { return row(in[0]); }, {-x}) == "");
  }
}

TEST_CASE("gradients of every binary row agree with finite differences", "[operator][elementwise][gradient]") {
  for (const BinaryCase& row : binary_cases()) {
    if (!row.has_gradient())
      continue;
    CAPTURE(row.name);
    const NDArray a = random_array({3, 4, 5}, 16, row.low, row.high, float64);
    const NDArray b = random_array({3, 4, 5}, 17, row.low, row.high, float64);
    const NDArray middle = random_array({4, 1}, 18, row.low, row.high, float64);
    const Function f = [&](const auto& in) { return row(in[0], in[1]); };
    CHECK(gradient_differences(f, {a, b}) == "");
    CHECK(gradient_differences(f, {a, middle}) == "");
    CHECK(gradient_differences(f, {middle, b}) == "");
    CHECK(gradient_differences([&](const auto& in) { return row(in[0], Scalar(2.5)); }, {a}) == "");
    CHECK(gradient_differences([&](const auto& in) { return row(Scalar(2.5), in[0]); }, {a}) == "");
    // One operand wanted, the other not.
    CHECK(gradient_differences([&](const auto& in) { return row(in[0], b); }, {a}) == "");
    CHECK(gradient_differences([&](const auto& in) { return row(a, in[0]); }, {b}) == "");
  }
}

namespace {

// The gradient of y = f(x) summed, x of some type.
NDArray gradient_of(const std::function<NDArray(const NDArray&)>& f, const NDArray& x) {
  const NDArray variable = x.detach();
  NDArray(variable).attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(variable);
  }
  y.backward();
  return variable.grad();
}

}  // namespace

TEST_CASE("gradients keep the type of the operand", "[operator][elementwise][gradient]") {
  for (const DType dtype : {float16, bfloat16, float32}) {
    for (const UnaryCase& row : unary_cases()) {
      if (!row.has_gradient())
        continue;
      CAPTURE(row.name, dtype);
      const NDArray x = random_array({31}, 19, row.low, row.high, dtype);
      const NDArray narrow = gradient_of([&](const NDArray& v) { return row(v); }, x);
      const NDArray wide = gradient_of([&](const NDArray& v) { return row(v); }, x.astype(float64));
      CHECK(narrow.dtype() == dtype);
      const Tolerance t = tolerance_of(dtype);
      CHECK(differences(narrow, wide, {8 * t.relative, 8 * t.absolute}) == "");
    }
  }
}

TEST_CASE("gradients of gradients agree with finite differences for every row", "[operator][elementwise][gradient]") {
  // The first gradient, recorded itself, is a function of the input like any other.
  const auto derivative = [](const std::function<NDArray(const NDArray&)>& f, const NDArray& x) {
    NDArray v = x;
    if (!autograd::on_tape(v)) {
      v = x.detach();
      v.attach_grad();
    }
    const autograd::RecordScope record;
    const NDArray y = f(v);
    return autograd::grad({&y, 1}, {&v, 1}, {}, {.create_graph = true})[0];
  };
  for (const UnaryCase& row : unary_cases()) {
    if (!row.has_gradient())
      continue;
    CAPTURE(row.name);
    const NDArray x = random_array({5}, 20, row.low, row.high, float64);
    // x * f'(x) depends on x even where f' does not.
    const Function g = [&](const auto& in) {
      return in[0] * derivative([&](const NDArray& v) { return row(v); }, in[0]);
    };
    CHECK(gradient_differences(g, {x}, {.tolerance = {2e-5, 1e-6}}) == "");
  }
  for (const BinaryCase& row : binary_cases()) {
    if (!row.has_gradient())
      continue;
    CAPTURE(row.name);
    const NDArray a = random_array({4}, 21, row.low, row.high, float64);
    const NDArray b = random_array({3, 1}, 22, row.low, row.high, float64);
    const Function by_a = [&](const auto& in) {
      return in[0] * derivative([&](const NDArray& v) { return row(v, in[1]); }, in[0]);
    };
    const Function by_b = [&](const auto& in) {
      return in[1] * derivative([&](const NDArray& v) { return row(in[0], v); }, in[1]);
    };
    const Function by_number = [&](const auto& in) {
      return in[0] * derivative([&](const NDArray& v) { return row(v, Scalar(1.5)) + row(Scalar(1.5), v); }, in[0]);
    };
    CHECK(gradient_differences(by_a, {a, b}, {.tolerance = {2e-5, 1e-6}}) == "");
    CHECK(gradient_differences(by_b, {a, b}, {.tolerance = {2e-5, 1e-6}}) == "");
    CHECK(gradient_differences(by_number, {a}, {.tolerance = {2e-5, 1e-6}}) == "");
  }
}

TEST_CASE("where chooses by the condition, and its gradient goes where it chose", "[operator][elementwise]") {
  const NDArray condition = array<std::int32_t>({1, 0, 2, 0}, {4});
  const NDArray a = random_array({3, 4}, 23, -1, 1, float64), b = random_array({4}, 24, -1, 1, float64);
  const auto y = where(condition, a, b).to_vector<double>(), u = a.to_vector<double>(), v = b.to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(y[i] == (i % 2 == 0 ? u[i] : v[i % 4]));
  CHECK(where(condition, array<float>({1, 2, 3, 4}), 7).to_vector<float>() == std::vector<float>{1, 7, 3, 7});
  CHECK(where(condition, 7, array<float>({1, 2, 3, 4})).to_vector<float>() == std::vector<float>{7, 2, 7, 4});
  CHECK(where(condition, array<std::uint8_t>({1, 2, 3, 4}), array<float>({5, 6, 7, 8})).dtype() == float32);
  CHECK(gradient_differences([&](const auto& in) { return where(condition, in[0], in[1]); }, {a, b}) == "");
  CHECK(gradient_differences([&](const auto& in) { return where(condition, in[0], 1); }, {a}) == "");
  CHECK(gradient_differences([&](const auto& in) { return where(condition, 1, in[0]); }, {a}) == "");
  for (const DType dtype : k_every_dtype) {
    CAPTURE(dtype);
    const NDArray p = random_array({4}, 25, 0, 9, dtype), q = random_array({4}, 26, 0, 9, dtype);
    CHECK(where(condition, p, q).dtype() == dtype);
    const auto r = where(condition, p, q).to_vector<double>();
    CHECK(
        r ==
        std::vector<double>{
            p.to_vector<double>()[0], q.to_vector<double>()[1], p.to_vector<double>()[2], q.to_vector<double>()[3]});
  }
}

TEST_CASE("clip keeps values within bounds, and its gradient is zero beyond them", "[operator][elementwise]") {
  const NDArray x = array<double>({-2, -1, 0.5, 1, 3}, {5});
  CHECK(clip(x, -1, 1).to_vector<double>() == std::vector<double>{-1, -1, 0.5, 1, 1});
  NDArray v = x.detach();
  v.attach_grad();
  {
    const autograd::RecordScope record;
    clip(v, -1, 1).backward();
  }
  CHECK(v.grad().to_vector<double>() == std::vector<double>{0, 1, 1, 1, 0});
  CHECK(clip(array<std::uint8_t>({1, 200}), 5, 300).dtype() == uint8);
  CHECK(clip(array<std::uint8_t>({1, 200}), 5, 300).to_vector<int>() == std::vector<int>{5, 200});
  CHECK(clip(array<std::int32_t>({1, 9}), 2.5, 7).to_vector<float>() == std::vector<float>{2.5, 7});
  CHECK(std::isnan(clip(array<float>({NAN}), 0, 1).item<float>()));
  CHECK_THROWS_AS(clip(x, 1, -1), ValueError);
}
