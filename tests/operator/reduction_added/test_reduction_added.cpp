// A reduction is one row of one file, and a state in another if none does: reductions that only this program's files
// have, run in every type and layout, differentiated, found by name and drawn by the generators that tests walk.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reduction_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"
#include "touched.h"

using namespace sluice;

namespace {

double geometric(const std::vector<double>& terms) {
  double logarithms = 0;
  for (const double x : terms)
    logarithms += std::log(x);
  return std::exp(logarithms / static_cast<double>(terms.size()));
}

double twice_the_mean(const std::vector<double>& terms) {
  double total = 0;
  for (const double x : terms)
    total += 2 * x / static_cast<double>(terms.size());
  return total;
}

}  // namespace

TEST_CASE("A reduction is one line of one file, and a state in a second where it needs its own", "[operator][reduce]") {
  CHECK(std::size(k_touched) == 2);
  CHECK(lines_in("operator/reduce/reduce.def") == 2);
  CHECK(lines_in("operator/reduce/states.h") < 15);
  const auto& cases = test::reduction_cases();
  for (const std::string name : {"double_mean", "geometric_mean"})
    CHECK(std::any_of(cases.begin(), cases.end(), [&](const auto& row) { return row.name == name; }));
}

TEST_CASE("A reduction that was added runs in every type and layout, by name too", "[operator][reduce]") {
  for (const DType dtype : {float32, float64, float16, bfloat16, int32}) {
    const NDArray base = test::random_array({4, 5, 6}, 3, 0.6, 3, dtype);
    for (const NDArray& x :
         {base, base.transpose(), base.slice(2, 0, 6, 2), base.slice(0, 1, 2).broadcast_to({3, 5, 6})}) {
      for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
        const Shape over(std::vector<std::int64_t>(axes.begin(), axes.end()));
        const test::Dense dense(x);
        CHECK(
            test::differences(geometric_mean(x, over, true), test::reduce_terms(dense, axes, geometric).array()) == "");
        CHECK(
            test::differences(double_mean(x, over, true), test::reduce_terms(dense, axes, twice_the_mean).array()) ==
            "");
      }
    }
  }
  const Operator& op = *find_operator("geometric_mean");
  const NDArray by_name =
      invoke_one(op, {array({1.0, 4.0, 16.0})}, parse_attributes(op, "axes=(0,), keepdims=true"), {});
  CHECK(by_name.shape() == Shape{1});
  CHECK(by_name.to_vector<double>()[0] == Approx(4));
}

TEST_CASE("A reduction that was added has a gradient", "[operator][reduce]") {
  const NDArray x = test::random_array({3, 4}, 5, 0.5, 2, float64);
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}}) {
    CHECK(test::gradient_differences([&](const auto& in) { return geometric_mean(in[0], axes); }, {x}) == "");
    CHECK(test::gradient_differences([&](const auto& in) { return double_mean(in[0], axes); }, {x}) == "");
  }
}
