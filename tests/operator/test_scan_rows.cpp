// Scans along the last axis of a CPU, which go on in several rows or pieces by turns: rows and pieces that do not come
// out even, against one loop a row. Extremes backwards.
#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using test::random_array;

namespace {

using Index = std::int64_t;

// join(what there is so far, an element) along the rows of x, in double.
template <class Join>
NDArray along_rows(const NDArray& x, bool reverse, Join join) {
  test::Dense y(x);
  const Index n = x.shape()[1];
  for (Index row = 0; row < x.shape()[0]; ++row) {
    double so_far = 0;
    for (Index i = 0; i < n; ++i) {
      double& at = y.values[static_cast<std::size_t>(row * n + (reverse ? n - 1 - i : i))];
      at = so_far = i == 0 ? at : join(so_far, at);
    }
  }
  return y.array();
}

void check_rows(const NDArray& x) {
  CAPTURE(x.dtype(), x.shape());
  const test::Tolerance same{0, 0};
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    const NDArray sums = along_rows(x, reverse, [](double a, double b) { return a + b; });
    CHECK(test::differences(cumsum(x, 1, reverse), sums.astype(cumsum(x, 1).dtype()), same) == "");
    if (!is_floating(x.dtype()))
      continue;
    const NDArray affine = along_rows(x, reverse, [](double y, double b) { return -0.5 * y + b; });
    const NDArray halves = full(x.shape(), -0.5, {.dtype = x.dtype()});
    CHECK(test::differences(linear_recurrence(halves, x, 1, reverse), affine, test::tolerance_of(x.dtype())) == "");
  }
  const NDArray most = along_rows(x, false, [](double a, double b) { return b >= a ? b : a; });
  CHECK(test::differences(cummax(x, 1).values, most, same) == "");
  const NDArray where_most = cummax(x, 1).indices;
  CHECK(test::differences(take_along_axis(x, where_most, 1), most, same) == "");
}

}  // namespace

TEST_CASE("Rows that are scanned by turns are those that one loop a row makes, to the bit", "[operator][scan]") {
  for (const DType dtype : {float32, float64, float16, bfloat16, int32, int64, int8}) {
    for (const Index rows : {1, 2, 3, 4, 5, 7, 8, 9}) {
      for (const Index n : {1, 2, 3, 7, 8, 9, 33})
        check_rows(random_array({rows, n}, 7, -20, 20, int64).astype(dtype) * (is_floating(dtype) ? 0.125 : 1));
    }
  }
  check_rows(random_array({70001, 3}, 8));  // several workers, no multiple of what goes on by turns
}

// Whole numbers: their sums are exact, in any order.
TEST_CASE("Pieces that are scanned by turns come to the whole, the last one shorter", "[operator][scan]") {
  for (const int workers : {1, 2}) {  // one meets all pieces at once
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (const DType dtype : {float64, int64}) {
      for (const Index rows : {1, 2, 3, 5}) {
        for (const Index n : {32768, 32769, 65537, 100003, 131072})
          check_rows(random_array({rows, n}, 9, -20, 20, int64).astype(dtype));
      }
    }
    engine.wait_all();
  }
}

TEST_CASE("cummax and cummin by name go backwards, on a GPU in vectors too", "[operator][scan][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const char* const name : {"cummax", "cummin"}) {
    const Operator& op = *find_operator(name);
    const Attributes onward = parse_attributes(op, "axis=1"), back = parse_attributes(op, "axis=1, reverse=true");
    for (const DType dtype : {float32, float16, float64, int32}) {
      for (const std::int64_t n : {15, 48, 129, 1024, 33000}) {
        const NDArray x = floor(test::random_array({2, n}, 5, -3, 3)).astype(dtype);
        const Arrays turned = invoke(op, std::vector{flip(x, {1})}, onward, {});
        for (const Device device : {cpu(), gpu()}) {
          CAPTURE(name, dtype, n, device);
          const Arrays got = invoke(op, std::vector{x.to(device)}, back, {});
          CHECK(test::differences(got[0].to(cpu()), flip(turned[0], {1}), {0, 0}) == "");
          CHECK(test::differences(got[1].to(cpu()), (n - 1) - flip(turned[1], {1}), {0, 0}) == "");
        }
      }
    }
  }
}
