// An operator that moves entries is one row of one file: rows that only this program's table has run in every type, are
// differentiated and found by name.
#include <iterator>
#include <string>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"
#include "touched.h"

using namespace sluice;

namespace {

NDArray called(const char* name, const NDArray& x, const std::string& attributes) {
  const Operator& op = *find_operator(name);
  return invoke_one(op, {x}, parse_attributes(op, attributes), {});
}

}  // namespace

TEST_CASE("An operator that moves entries is one line of one file", "[operator][walk]") {
  CHECK(std::size(k_touched) == 1);
  CHECK(lines_in("operator/walk/walk.def") == 2);
}

TEST_CASE("Operators that were added move entries of every type, by name", "[operator][walk]") {
  for (const DType dtype : test::all_dtypes()) {
    CAPTURE(dtype);
    const NDArray x = (arange(0, 3, 1).reshape({1, 3}) + NDArray(array({0.0, 1.0}).reshape({2, 1}))).astype(dtype);
    const NDArray mirrored = array({1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 2.0, 3.0, 3.0}).astype(dtype);
    CHECK(test::differences(called("pad_symmetric", x, "axis=-1, before=2, after=1"), mirrored.reshape({2, 6})) == "");
    const NDArray apart = array({0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0}).astype(dtype);
    CHECK(test::differences(called("every_other", x, "axis=0, value=1"), apart.reshape({3, 3})) == "");
  }
}

TEST_CASE("Operators that were added have gradients", "[operator][walk]") {
  const NDArray x = test::random_array({3, 4}, 5, 0.5, 2, float64);
  for (const char* axis : {"axis=0", "axis=1"}) {
    const std::string at = axis;
    const auto mirrored = [&](const auto& in) { return called("pad_symmetric", in[0], at + ", before=2, after=3"); };
    CHECK(test::gradient_differences(mirrored, {x}) == "");
    CHECK(test::gradient_differences([&](const auto& in) { return called("every_other", in[0], at); }, {x}) == "");
  }
}
