// Differentiable operators of whole numbers, truths and stored types: forward, of every such type that an operator
// takes, in all layouts, against the same numbers in float64 lying densely. The floating types:
// test_head_gradients.cpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/operator/every_case.h"
#include "tests/operator/layouts.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr DType k_whole[] = {bool_, uint8, int8, int32, int64, int16, uint16, uint32, uint64};

/// The same as an element of a whole type: wrapped around, and 0 of what is no number (of a division by 0).
double held(DType dtype, double value) {
  if (!std::isfinite(value))
    return 0;
  const auto whole = static_cast<std::int64_t>(value);
  if (dtype == bool_)
    return value != 0 ? 1 : 0;
  return dtype == uint64 ? static_cast<double>(static_cast<std::uint64_t>(whole))
                         : array<std::int64_t>({whole}).astype(dtype).item<double>();
}

std::string whole_differences(const NDArray& got, const NDArray& want, double noise) {
  if (is_floating(got.dtype())) {
    const double error = 2e-5 * noise;
    return differences(got, want, {error, error});
  }
  if (got.shape() != want.shape())
    return message("shape ", got.shape(), ", expected ", want.shape());
  const auto is = got.to_vector<double>(), exact = want.to_vector<double>();
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (is[i] != held(got.dtype(), exact[i]))
      return message(got.dtype(), " element ", i, " is ", is[i], ", expected ", exact[i]);
  }
  return {};
}

std::vector<NDArray> drawn(const DifferentiableCase& c, DType dtype, Layout layout) {
  std::vector<NDArray> given;
  const double high = 3 * std::max(c.high, -c.low), low = is_unsigned(dtype) ? 0 : 3 * c.low;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    const NDArray base = random_array(base_shape(layout, c.shapes[i]), 10 + i, low, high, dtype);
    given.push_back(view_of(layout, base, c.shapes[i]));
  }
  return given;
}

NDArray run(const DifferentiableCase& c, const std::vector<NDArray>& given) {
  random::seed(7);
  const NDArray result = c.f(given);
  result.wait_to_read();
  return result;
}

// Empty if all layouts give what float64 gives, or if the type is refused where arrays are dense.
std::string whole_differences(const DifferentiableCase& c, DType dtype, int& ran) {
  for (const auto& [layout, name] : k_layouts) {
    std::vector<NDArray> wide, given = drawn(c, dtype, layout);
    for (const NDArray& x : given)
      wide.push_back(x.astype(float64));
    try {
      const NDArray got = run(c, given);
      ++ran;
      const std::string found = whole_differences(got, run(c, wide), c.noise);
      if (!found.empty())
        return message(name, ": ", found);
    } catch (const DTypeError& error) {
      if (layout != Layout::dense)
        return message(name, ": ", error.what());
      return {};
    } catch (const Error& error) {
      return message(name, ": ", error.what());
    }
  }
  return {};
}

}  // namespace

TEST_CASE("Differentiable operators take whole numbers in all layouts", "[whole]") {
  int ran = 0;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    if (c.in_float32)  // attention in half types: its results are rounded on the way
      continue;
    for (const DType dtype : k_whole) {
      if (c.name == "diff" && dtype == bool_)  // of truths whether they differ, as NumPy has it
        continue;
      CAPTURE(c.name, c.shapes, dtype);
      CHECK(whole_differences(c, dtype, ran) == "");
    }
  }
  CHECK(ran > 5000);
}
