// Copies of short runs of neighbours, which go row by row, against the places of their elements.
#include <cstdint>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

/// (a, b, n) of numbers that follow each other, and what stands beside them: `gap` more elements behind each n.
NDArray numbered(const Shape& shape, std::int64_t gap, DType dtype) {
  const std::int64_t n = shape[2] + gap, rows = shape[0] * shape[1];
  std::vector<double> values(static_cast<std::size_t>(rows * n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i % 101);
  const NDArray all = from_values(values.data(), float64, rows * n, {rows * n}, {.dtype = dtype});
  return detail::make_view(all, shape, {shape[1] * n, n, 1}, 0);
}

NDArray turned(const NDArray& x) {
  const Shape &shape = x.shape(), &strides = x.strides();
  return detail::make_view(x, {shape[1], shape[0], shape[2]}, {strides[1], strides[0], strides[2]}, x.object()->offset);
}

/// Whether y[b, a, i] is what was written to (a, b, i).
bool is_turned(const NDArray& y, const Shape& shape, std::int64_t gap, std::int64_t step_a) {
  const std::vector<double> got = y.to_vector<double>();
  std::size_t at = 0;
  for (std::int64_t b = 0; b < shape[1]; ++b) {
    for (std::int64_t a = 0; a < shape[0]; ++a) {
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        const std::int64_t from = (a * step_a + b) * (shape[2] + gap) + i;
        if (got[at++] != static_cast<double>(from % 101))
          return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("Short rows are copied whole, whatever their length, number and distance", "[copy]") {
  for (const DType dtype : {uint8, bfloat16, float32, int64}) {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t bytes : {16, 24, 32, 40, 56, 64, 72, 120, 128, 136, 248, 256, 264, 1016, 1024, 1032}) {
      for (const std::int64_t rows : {1, 2, 7, 8, 9, 17, 70}) {
        const Shape shape{rows, 3, bytes / size};
        CAPTURE(name_of(dtype), bytes, rows);
        for (const std::int64_t gap : {0, 1}) {
          const NDArray x = numbered(shape, gap, dtype), y = turned(x).copy();
          CHECK(is_turned(y, shape, gap, 3));
          // Rows of the target apart, and nothing between them is touched.
          const NDArray wide = full({3, rows, shape[2] + 2}, 103, {.dtype = dtype});
          const NDArray to = detail::make_view(wide, {3, rows, shape[2]}, wide.strides(), 1);
          copy_into(turned(x), to);
          CHECK(is_turned(to.copy(), shape, gap, 3));
          const std::vector<double> all = wide.to_vector<double>();
          std::size_t untouched = 0;
          for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(shape[2] + 2))
            untouched += all[i] == 103 && all[i + static_cast<std::size_t>(shape[2]) + 1] == 103 ? 1 : 0;
          CHECK(untouched == static_cast<std::size_t>(3 * rows));
        }
        // The same row again and again.
        const NDArray one = numbered({1, 3, shape[2]}, 0, dtype);
        const NDArray same = detail::make_view(one, {3, rows, shape[2]}, {shape[2], 0, 1}, 0).copy();
        CHECK(is_turned(same, shape, 0, 0));
      }
    }
  }
  CHECK(turned(numbered({0, 3, 64}, 0, float32)).copy().shape() == Shape{3, 0, 64});
  CHECK(turned(numbered({5, 3, 0}, 0, float32)).copy().shape() == Shape{3, 5, 0});
}
