// Differentiable operators of whole numbers, truths and stored types: forward, of every such type that an operator
// takes, in all layouts, small numbers and large ones, against the same in float64 or int64 lying densely. The floating
// types: test_head_gradients.cpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
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
  if (dtype == bool_)
    return value != 0 ? 1 : 0;
  const auto whole = static_cast<std::int64_t>(value);
  return dtype == uint64 ? static_cast<double>(static_cast<std::uint64_t>(whole))
                         : array<std::int64_t>({whole}).astype(dtype).item<double>();
}

/// Numbers of a whole type: of the case's own range and somewhat more, against float64; or as large as they come,
/// which wrap around, against int64.
enum class Numbers { small, large };

DType reference_of(DType dtype, Numbers numbers) {
  return numbers == Numbers::small || dtype == int64 ? float64 : int64;
}

std::string whole_differences(const NDArray& got, const NDArray& want, double noise) {
  if (is_floating(got.dtype())) {
    const double error = 2e-5 * noise;
    return differences(got, want, {error, error});
  }
  if (got.shape() != want.shape())
    return message("shape ", got.shape(), ", expected ", want.shape());
  const auto is = got.to_vector<double>();
  const NDArray wrapped = want.dtype() == int64 ? want.astype(got.dtype()) : want;
  const auto exact = wrapped.to_vector<double>();
  for (std::size_t i = 0; i < is.size(); ++i) {
    const double number = want.dtype() == int64 ? exact[i] : held(got.dtype(), exact[i]);
    if (is[i] != number && std::abs(exact[i]) < 0x1p53)
      return message(got.dtype(), " element ", i, " is ", is[i], ", expected ", number);
  }
  return {};
}

std::pair<double, double> range_of(const DifferentiableCase& c, DType dtype, Numbers numbers) {
  // Of 64 bits those of which a double tells a sum of products.
  const int bits = dtype == int64 ? 24 : std::min(41, 8 * static_cast<int>(size_of(dtype)));
  if (dtype == bool_)
    return {0, 1};
  if (numbers == Numbers::large)
    return is_unsigned(dtype) ? std::pair{0.0, std::ldexp(1, bits) - 1}
                              : std::pair{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1};
  const double most = 3 * std::max(c.high, -c.low);
  return is_unsigned(dtype) ? std::pair{0.0, most} : std::pair{3 * c.low, 3 * c.high};
}

struct Given {
  std::vector<NDArray> whole, wide;  // the same numbers, of a whole type in a layout, and of the reference's densely
};

Given drawn(const DifferentiableCase& c, DType dtype, Layout layout, Numbers numbers, Device device = cpu()) {
  Given given;
  const auto [low, high] = range_of(c, dtype, numbers);
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    const Shape base = base_shape(layout, c.shapes[i]);
    auto values = random_array(base, 10 + i, low, high, float64).to_vector<double>();
    for (double& value : values)
      value = std::floor(value + 0.5);
    const NDArray whole = from_values(values.data(), float64, base.size(), base, {.dtype = dtype});
    given.whole.push_back(view_of(layout, whole.to(device), c.shapes[i]));
    const NDArray wide =
        from_values(values.data(), float64, base.size(), base, {.dtype = reference_of(dtype, numbers)});
    given.wide.push_back(view_of(layout, wide, c.shapes[i]).copy());
  }
  return given;
}

NDArray run(const DifferentiableCase& c, const std::vector<NDArray>& given) {
  random::seed(7);
  const NDArray result = c.f(given);
  result.wait_to_read();
  return result;
}

// Empty if all layouts give what the reference gives, or if the type is refused where arrays are dense. Floating
// results of large numbers are not asked for: their formulas are float32's.
std::string whole_differences(
    const DifferentiableCase& c, DType dtype, Numbers numbers, int& ran, Device device = cpu()) {
  for (const auto& [layout, name] : k_layouts) {
    try {
      if (numbers == Numbers::large && is_floating(run(c, drawn(c, dtype, layout, Numbers::small).whole).dtype()))
        return {};
      const Given given = drawn(c, dtype, layout, numbers, device);
      const NDArray got = run(c, given.whole).to(cpu());
      ++ran;
      const std::string found = whole_differences(got, run(c, given.wide), c.noise);
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

// How many ran.
int check_whole(Device device) {
  int ran = 0;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    if (c.in_float32)  // attention in half types: its results are rounded on the way
      continue;
    for (const DType dtype : k_whole) {
      if (c.name == "diff" && dtype == bool_)  // of truths whether they differ, as NumPy has it
        continue;
      for (const Numbers numbers : {Numbers::small, Numbers::large}) {
        if (c.name == "sum of products" && numbers == Numbers::large)  // of products that wrapped around
          continue;
        CAPTURE(c.name, c.shapes, dtype, static_cast<int>(numbers), device);
        CHECK(whole_differences(c, dtype, numbers, ran, device) == "");
      }
    }
  }
  return ran;
}

}  // namespace

TEST_CASE("Differentiable operators take whole numbers in all layouts", "[whole]") {
  CHECK(check_whole(cpu()) > 5000);
}

TEST_CASE("Differentiable operators take whole numbers in all layouts on a GPU", "[whole][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(check_whole(gpu()) > 5000);
}
