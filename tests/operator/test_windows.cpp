// Windows as columns, and columns added up, against plain loops in double.
#include <vector>

#include <sluice/operator/conv/row_windows.h>
#include <sluice/operator/conv/windows.h>
#include <sluice/operator/invoke.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
  Shape x;
  WindowOptions options;
};

const std::vector<Case> k_cases = {
    {{2, 3, 5, 6}, {}},
    {{2, 2, 5, 7}, {.kernel = {2, 3}, .stride = {2, 1}, .pad = {1, 2}}},
    {{1, 2, 6, 5}, {.kernel = {2, 2}, .stride = {3, 2}, .pad = {0, 1, 2, 3}, .dilation = {3, 2}}},
    {{1, 1, 3, 40}, {.kernel = {1, 4}, .stride = {1, 2}}},
    {{2, 1, 4, 4}, {.kernel = {1, 1}, .stride = {5, 5}}},
};

// Where each element of the columns is taken from; -1 for padding.
struct Places {
  Shape columns;
  std::vector<std::int64_t> from;
};

Places places_of(const Case& c) {
  const Shape& x = c.x;
  const WindowOptions& o = c.options;
  std::int64_t out[2];
  for (int i = 0; i < 2; ++i) {
    const std::int64_t pads = o.pad[i] + o.pad[o.pad.ndim() == 4 ? i + 2 : i];
    out[i] = (x[i + 2] + pads - o.dilation[i] * (o.kernel[i] - 1) - 1) / o.stride[i] + 1;
  }
  Places made{{x[0], x[1] * o.kernel[0] * o.kernel[1], out[0] * out[1]}, {}};
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    for (std::int64_t k = 0; k < o.kernel[0] * o.kernel[1]; ++k)
      for (std::int64_t i = 0; i < out[0] * out[1]; ++i) {
        const std::int64_t y = i / out[1] * o.stride[0] - o.pad[0] + k / o.kernel[1] * o.dilation[0];
        const std::int64_t z = i % out[1] * o.stride[1] - o.pad[1] + k % o.kernel[1] * o.dilation[1];
        const bool inside = y >= 0 && y < x[2] && z >= 0 && z < x[3];
        made.from.push_back(inside ? (plane * x[2] + y) * x[3] + z : -1);
      }
  return made;
}

void check_windows(Device device) {
  for (const Case& c : k_cases) {
    const Places at = places_of(c);
    for (const DType dtype : {float32, float64, float16, bfloat16, int8, int64, bool_}) {
      CAPTURE(to_string(c.x), name_of(dtype));
      const NDArray x = random_array(c.x, 1, -3, 3, dtype);
      const auto values = x.to_vector<double>();
      std::vector<double> want;
      for (const std::int64_t from : at.from)
        want.push_back(from < 0 ? 0 : values[static_cast<std::size_t>(from)]);
      const NDArray got = im2col(x.to(device), c.options);
      CHECK(got.dtype() == dtype);
      CHECK(differences(got.to(cpu()), array(want, at.columns).astype(dtype), {0, 0}) == "");
    }
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), name_of(dtype));
      const NDArray columns = random_array(at.columns, 2, -1, 1, dtype);
      const auto values = columns.to_vector<double>();
      std::vector<double> sums(static_cast<std::size_t>(c.x.size()));
      for (std::size_t i = 0; i < at.from.size(); ++i) {
        if (at.from[i] >= 0)
          sums[static_cast<std::size_t>(at.from[i])] += values[i];
      }
      const NDArray got = col2im(columns.to(device), {c.x[2], c.x[3]}, c.options);
      CHECK(differences(got.to(cpu()), array(sums, c.x), sum_tolerance(dtype)) == "");
    }
  }
}

}  // namespace

TEST_CASE("Windows as columns, and their sums, agree with plain loops for every type", "[windows]") {
  check_windows(cpu());
  CHECK(im2col(zeros({0, 2, 4, 4})).shape() == Shape{0, 18, 4});
  CHECK(im2col(zeros({2, 0, 4, 4})).shape() == Shape{2, 0, 4});
  CHECK(col2im(zeros({0, 18, 4}), {4, 4}).shape() == Shape{0, 2, 4, 4});
}

TEST_CASE("Windows as columns, and their sums, agree with plain loops on a GPU", "[windows][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_windows(gpu());
}

TEST_CASE("Rows of windows stand in front of channels where a convolution of volumes asks", "[windows]") {
  const NDArray x = random_array({2, 3, 5, 4}, 1);
  const sluice::detail::RowWindows how{.kernel = 2, .stride = 2, .dilation = 2, .pad = {1, 0}};
  const NDArray rows = invoke_one(sluice::detail::k_unfold_rows, {x}, Attributes::of(how), {});
  const WindowOptions o{.kernel = {2, 1}, .stride = {2, 1}, .pad = {1, 0, 0, 0}, .dilation = {2, 1}};
  const NDArray columns = im2col(x, o).reshape({2, 3, 2, 2, 4});  // (N, C, taps, windows, width)
  CHECK(differences(rows, columns.transpose({0, 3, 1, 2, 4}), {0, 0}) == "");
  const NDArray sums =
      invoke_one(sluice::detail::k_fold_rows, {rows}, Attributes::of(sluice::detail::RowSums{how, 5}), {});
  CHECK(differences(sums, col2im(im2col(x, o), {5, 4}, o), {0, 0}) == "");
}

TEST_CASE("The gradients of windows are each other, twice and in graphs too", "[windows]") {
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x));
    const auto out = [&](const auto& v) { return im2col(v[0], c.options); };
    CHECK(gradient_differences(out, {random_array(c.x, 1, -1, 1, float64)}) == "");
    const auto back = [&](const auto& v) { return col2im(v[0], {c.x[2], c.x[3]}, c.options); };
    CHECK(gradient_differences(back, {random_array(places_of(c).columns, 1, -1, 1, float64)}) == "");
  }
  const auto both = [](const auto& v) { return col2im(im2col(v[0]), {5, 6}); };
  CHECK(traced_differences(both, {random_array({2, 3, 5, 6}, 1)}) == "");
}

TEST_CASE("Windows refuse what does not fit, by name and values", "[windows]") {
  const NDArray x = ones({1, 2, 4, 4}), columns = ones({1, 18, 4});
  CHECK_THROWS_WITH(im2col(x, {.kernel = {5, 1}}), contains("im2col") && contains("(1, 2, 4, 4)"));
  CHECK_NOTHROW(im2col(x, {.kernel = {4, 4}}));
  CHECK_THROWS_AS(im2col(x, {.kernel = {3}}), ValueError);
  CHECK_THROWS_AS(im2col(x, {.kernel = {0, 1}}), ValueError);
  CHECK_THROWS_AS(im2col(x, {.stride = {0, 1}}), ValueError);
  CHECK_THROWS_AS(im2col(x, {.pad = {-1, 0}}), ValueError);
  CHECK_THROWS_AS(im2col(x, {.dilation = {0, 0}}), ValueError);
  CHECK_THROWS_AS(im2col(x[0]), ShapeError);
  CHECK_THROWS_AS(col2im(columns, {5, 4}), ShapeError);
  CHECK_THROWS_AS(col2im(columns, {4}), ValueError);
  CHECK_THROWS_AS(col2im(ones({1, 17, 4}), {4, 4}), ShapeError);
  CHECK_THROWS_AS(col2im(columns[0], {4, 4}), ShapeError);
  CHECK_THROWS_AS(col2im(columns.astype(int32), {4, 4}), DTypeError);
}

TEST_CASE("Extents of columns that no number holds are an error by name, not other extents", "[windows]") {
  constexpr std::int64_t large = std::int64_t{1} << 30, most = (std::int64_t{1} << 31) - 1;
  CHECK_THROWS_WITH(
      im2col(ones({1, 16, 1, 1}), {.kernel = {large, large}, .pad = {large, large}}),
      contains("im2col") && contains("(16, 1073741824, 1073741824)"));
  // 2^64 windows, which a product that wraps takes for none.
  const WindowOptions around{.kernel = {1, 1}, .pad = {most, most}};
  CHECK_THROWS_WITH(im2col(ones({1, 1, 2, 2}), around), contains("im2col") && contains("(4294967296, 4294967296)"));
  CHECK_THROWS_WITH(
      col2im(zeros({1, 1, 0}), {2, 2}, around), contains("col2im") && contains("(4294967296, 4294967296)"));
  CHECK(im2col(ones({0, 1, 1, 2}), {.kernel = {1, 1}, .pad = {0, large}}).shape() == Shape{0, 1, 2 * large + 2});
}
