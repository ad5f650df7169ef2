// Operators of two operands of which one may be a number: one operator for both forms, by name as by function.
#include <set>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;

namespace {

NDArray call(const char* name, const std::vector<NDArray>& inputs, const std::string& attributes) {
  const Operator& op = *find_operator(name);
  return invoke(op, inputs, parse_attributes(op, attributes), {})[0];
}

std::string refused(const char* name, const std::vector<NDArray>& inputs, const std::string& attributes) {
  try {
    call(name, inputs, attributes);
  } catch (const ValueError& error) {
    return error.message();
  }
  return "";
}

// y = f(x) recorded, then overwritten: backward fails if it kept y.
template <class F>
bool keeps_result(F f) {
  NDArray x = full({3}, 0.75);
  x.attach_grad();
  NDArray y;
  const NDArray total = [&] {
    const autograd::RecordScope record;
    y = f(x);
    return sum(y);
  }();
  y.assign(5);
  try {
    total.backward();
  } catch (const AutogradError&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("An operator of two operands is one operator, whatever the operands are", "[operator][elementwise]") {
  std::set<std::string> names;
  for (const Operator* op : operators())
    names.insert(op->name);
  for (const test::BinaryCase& row : test::binary_cases()) {
    CAPTURE(row.name);
    CHECK(names.count(row.name) == 1);
    CHECK(names.count(std::string(row.name) + "_scalar") == 0);
    CHECK(names.count("scalar_" + std::string(row.name)) == 0);
  }
  CHECK(names.count("where") == 1);
  CHECK(names.count("where_scalar") + names.count("scalar_where") == 0);
}

TEST_CASE("By name a number is either operand, or there is none", "[operator][elementwise]") {
  const NDArray a = array({1.0F, 2.5F, 0.5F}), b = array({2.0F, 0.75F, 3.0F});
  for (const test::BinaryCase& row : test::binary_cases()) {
    CAPTURE(row.name);
    CHECK(test::all_close(call(row.name, {a, b}, ""), row(a, b)));
    CHECK(test::all_close(call(row.name, {a, b}, "number=none, first=true"), row(a, b)));
    CHECK(test::all_close(call(row.name, {a}, "number=1.5"), row(a, 1.5)));
    CHECK(test::all_close(call(row.name, {b}, "number=1.5, first=true"), row(1.5, b)));
    CHECK(refused(row.name, {a}, "") == message(row.name, ": takes 2 inputs, was given 1"));
    CHECK(refused(row.name, {a, b}, "number=1") == message(row.name, ": takes 1 input beside a number, was given 2"));
    CHECK(refused(row.name, {a, b, b}, "") == message(row.name, ": takes 2 inputs, was given 3"));
    CHECK(refused(row.name, {}, "") == message(row.name, ": takes 2 inputs, was given 0"));
  }
  const NDArray flags = array<bool>({true, false, true});
  CHECK(test::all_close(call("where", {flags, a}, "number=4"), where(flags, a, 4)));
  CHECK(test::all_close(call("where", {flags, a}, "number=4, first=true"), where(flags, 4, a)));
  CHECK(refused("where", {flags}, "number=4") == "where: takes 2 inputs beside a number, was given 1");
  CHECK(refused("where", {flags, a}, "") == "where: takes 3 inputs, was given 2");
}

TEST_CASE("Inference counts the operands too", "[operator][elementwise]") {
  const Operator& op = *find_operator("add");
  const ArraySpec x{.shape = {2, 3}, .dtype = float32, .device = cpu()};
  const std::vector<ArraySpec> one{x}, two{x, x};
  const Attributes number = parse_attributes(op, "number=2");
  CHECK(infer(op, two, {})[0].shape == Shape{2, 3});
  CHECK(infer(op, one, number)[0].shape == Shape{2, 3});
  CHECK_THROWS_AS(infer(op, one, {}), ValueError);
  CHECK_THROWS_AS(infer(op, two, number), ValueError);
  CHECK_THROWS_AS(infer(op, {}, {}), ValueError);
}

TEST_CASE("A result is kept for backward only where the wanted gradient reads it", "[operator][elementwise]") {
  const NDArray other = full({3}, 1.5);
  CHECK_FALSE(keeps_result([](const NDArray& x) { return x / 2; }));
  CHECK(keeps_result([](const NDArray& x) { return 2 / x; }));
  CHECK_FALSE(keeps_result([](const NDArray& x) { return power(x, 3); }));
  CHECK(keeps_result([](const NDArray& x) { return power(3, x); }));
  CHECK_FALSE(keeps_result([&](const NDArray& x) { return x / other; }));
  CHECK(keeps_result([&](const NDArray& x) { return other / x; }));
}
