// An elementwise operator is one row of one file: operators that only this program's tables have, run, differentiated,
// found by name and drawn by the generators that the tree's tests walk.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"
#include "touched.h"

using namespace sluice;

namespace {

NDArray line(const std::vector<double>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

template <class Cases>
bool is_walked(const Cases& cases, const std::string& name) {
  return std::any_of(cases.begin(), cases.end(), [&](const auto& row) { return row.name == name; });
}

std::string gradient_of(const test::Function& f, const std::vector<Shape>& shapes) {
  std::vector<NDArray> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(test::random_array(shape, 5 + inputs.size(), -3, 3, float64));
  return test::gradient_differences(f, inputs);
}

// Recorded in its turn: the gradient's formula for arrays.
std::string second_gradient_of(const test::Function& f) {
  return gradient_of(
      [&](const std::vector<NDArray>& inputs) {
        NDArray x = inputs[0];
        if (!autograd::on_tape(x)) {
          x = x.detach();
          x.attach_grad();
        }
        const autograd::RecordScope record;
        const NDArray y = f({x}), head = ones_like(y);
        return autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = true})[0];
      },
      {{2, 3}});
}

}  // namespace

TEST_CASE("An elementwise operator is one line of one file", "[operator][rows]") {
  CHECK(std::size(k_touched) == 2);
  CHECK(lines_in("operator/elementwise/unary.def") == 3);
  CHECK(lines_in("operator/elementwise/binary.def") == 3);
  CHECK(is_walked(test::unary_cases(), "log_cosh"));
  CHECK(is_walked(test::unary_cases(), "soft_shrink"));
  CHECK(is_walked(test::binary_cases(), "gap"));
  for (const char* name : {"bits_left", "low_bits"})
    CHECK(is_walked(test::rows_of(test::all_binary_cases(), true), name));
  CHECK(is_walked(test::rows_of(test::all_unary_cases(), true), "lowest_bit"));
}

TEST_CASE("A row that was added runs and has a gradient", "[operator][rows]") {
  const NDArray x = array({-2.0, -0.25, 0.0, 0.75, 3.0});
  std::vector<double> want = x.to_vector<double>();
  for (double& value : want)
    value = std::log(std::cosh(value));
  for (const DType dtype : test::k_floating_dtypes)
    CHECK(test::differences(log_cosh(x.astype(dtype)), line(want)) == "");
  CHECK(log_cosh(array<std::int32_t>({0, 1})).dtype() == float32);
  CHECK(gradient_of([](const auto& v) { return log_cosh(v[0]); }, {{3, 4}}) == "");
  CHECK(second_gradient_of([](const auto& v) { return log_cosh(v[0]); }) == "");
  for (const char* name : {"log_cosh", "log_cosh_backward"})
    CHECK(find_operator(name) != nullptr);
}

TEST_CASE("A row with a parameter that was added runs and has a gradient", "[operator][rows]") {
  const NDArray x = array({-2.0, -0.25, 0.0, 0.75, 3.0});
  CHECK(soft_shrink(x, 0.5).to_vector<double>() == std::vector<double>{-1.5, 0, 0, 0.25, 2.5});
  CHECK(soft_shrink(x, 1).to_vector<double>() == std::vector<double>{-1, 0, 0, 0, 2});
  const Operator* op = find_operator("soft_shrink");
  REQUIRE(op != nullptr);
  CHECK(to_string(make_attributes(*op, {})) == "by=0.5");
  CHECK(
      invoke_one(*op, {x}, parse_attributes(*op, "by=1"), {}).to_vector<double>() ==
      soft_shrink(x, 1).to_vector<double>());
  CHECK(gradient_of([](const auto& v) { return soft_shrink(v[0], 0.25); }, {{3, 4}}) == "");
}

TEST_CASE("A row of two operands that was added runs and has gradients", "[operator][rows]") {
  const NDArray a = array<std::int32_t>({5, -2}), b = array<std::int32_t>({3, 1});
  CHECK(gap(a, b).dtype() == int32);
  CHECK(gap(a, b).to_vector<double>() == std::vector<double>{4, 9});
  CHECK(gap(a, 1).to_vector<double>() == std::vector<double>{16, 9});
  CHECK(gap(1, b).to_vector<double>() == std::vector<double>{4, 0});
  CHECK(gradient_of([](const auto& v) { return gap(v[0], v[1]); }, {{3, 1}, {2, 1, 4}}) == "");
  CHECK(gradient_of([](const auto& v) { return gap(2.5, v[0]); }, {{3, 4}}) == "");
}

TEST_CASE("Rows for whole numbers alone that were added run, and refuse others", "[operator][rows]") {
  using Values = std::vector<double>;
  const Values a = {0b1101, 7, -8, 0}, b = {0b0110, -1, 2, 3};
  for (const DType dtype : {int8, int32, int64}) {
    CAPTURE(dtype);
    const NDArray x = line(a).astype(dtype), y = line(b).astype(dtype);
    CHECK(lowest_bit(x).dtype() == dtype);
    CHECK(lowest_bit(x).to_vector<double>() == Values{1, 1, 0, 0});
    CHECK(bits_left(x, y).dtype() == dtype);
    CHECK(bits_left(x, y).to_vector<double>() == Values{0b1001, 0, -8, 0});
    CHECK(bits_left(x, 4).to_vector<double>() == Values{0b1001, 3, -8, 0});
    CHECK(low_bits(x, y).to_vector<double>() == Values{0b1101, 7, 0, 0});
    CHECK(low_bits(x, 2).to_vector<double>() == Values{1, 3, 0, 0});
  }
  const NDArray both = array<bool>({true, false, true}), one = array<bool>({true, true, false});
  CHECK(lowest_bit(both).dtype() == bool_);
  CHECK(bits_left(both, one).to_vector<bool>() == std::vector<bool>{false, false, true});
  CHECK(low_bits(both, one).dtype() == int64);
  const NDArray real = array({1.0, 2.0});
  CHECK_THROWS_AS(lowest_bit(real), DTypeError);
  CHECK_THROWS_AS(bits_left(real, real), DTypeError);
  CHECK_THROWS_AS(low_bits(real, 1), DTypeError);
  // Which rows reckon in types that are stored alone, and how, stands in stored_types.cpp.
  CHECK_THROWS_AS(lowest_bit(array<std::int16_t>({1})).wait_to_read(), DTypeError);
  for (const char* name : {"lowest_bit", "bits_left", "low_bits"}) {
    REQUIRE(find_operator(name) != nullptr);
    CHECK(find_operator(name)->gradient == nullptr);
    CHECK(find_operator(std::string(name) + "_backward") == nullptr);
  }
}
