// Arrays of a form: NumPy's values, types and edges, gradients, and what a trace for all batches may know.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Ints = std::vector<int>;
using Doubles = std::vector<double>;

Ints ints(const NDArray& x) {
  return x.to_vector<int>();
}

}  // namespace

TEST_CASE("eye has ones on a diagonal", "[operator][grids]") {
  CHECK(ints(eye(2)) == Ints{1, 0, 0, 1});
  CHECK(eye(2).dtype() == float32);
  CHECK(ints(eye(2, 3, 1)) == Ints{0, 1, 0, 0, 0, 1});
  CHECK(ints(eye(3, 2, -1)) == Ints{0, 0, 1, 0, 0, 1});
  CHECK(ints(eye(2, 2, 5)) == Ints{0, 0, 0, 0});
  CHECK(eye(0, 3).shape() == Shape{0, 3});
  CHECK(eye(2, {}, 0, {.dtype = bool_}).to_vector<bool>() == std::vector<bool>{true, false, false, true});
  CHECK_THROWS_WITH(eye(-1), contains("eye: rows") && contains("-1") && contains("test_grids.cpp"));
  CHECK_THROWS_AS(eye(1, -2), ShapeError);
}

TEST_CASE("linspace has both ends, and numbers at equal distances between", "[operator][grids]") {
  CHECK(linspace(0, 1, 5, {.dtype = float64}).to_vector<double>() == Doubles{0, 0.25, 0.5, 0.75, 1});
  CHECK(linspace(3, -3, 3).to_vector<float>() == std::vector<float>{3, 0, -3});
  CHECK(linspace(2, 9, 1).to_vector<float>() == std::vector<float>{2});
  CHECK(linspace(2, 9, 0).shape() == Shape{0});
  CHECK(linspace(0, 1).shape() == Shape{50});
  CHECK(ints(linspace(-1, 1, 4, {.dtype = int32})) == Ints{-1, -1, 0, 1});  // rounded down, as in NumPy
  CHECK(linspace(0, 1, 3, {.dtype = float16}).dtype() == float16);
  // 0.1 + 9 * (0.7 / 9) is not 0.8.
  CHECK(linspace(0.1, 0.8, 10, {.dtype = float64})[-1].item<double>() == 0.8);
  CHECK(linspace(1.7e308, -1.7e308, 3, {.dtype = float64}).to_vector<double>() == Doubles{1.7e308, 0, -1.7e308});
  CHECK(linspace(-1.7e308, 1.7e308, 1, {.dtype = float64}).to_vector<double>() == Doubles{-1.7e308});
  CHECK_THROWS_AS(linspace(0, 1, -1), ShapeError);
  CHECK_THROWS_WITH(linspace(0, INFINITY, 3), contains("linspace: ") && contains("test_grids.cpp"));
}

TEST_CASE("tril and triu keep a part of each matrix, of every type", "[operator][grids]") {
  for (const DType dtype : all_dtypes()) {
    CAPTURE(dtype);
    const NDArray x = ones({2, 3}, {.dtype = dtype});
    CHECK(tril(x).dtype() == dtype);
    CHECK(ints(tril(x)) == Ints{1, 0, 0, 1, 1, 0});
    CHECK(ints(triu(x, 1)) == Ints{0, 1, 1, 0, 0, 1});
  }
  const NDArray deep = arange(1, 9).reshape({2, 2, 2});
  CHECK(ints(tril(deep, -1)) == Ints{0, 0, 3, 0, 0, 0, 7, 0});
  CHECK(ints(triu(deep)) == Ints{1, 2, 0, 4, 5, 6, 0, 8});
  CHECK(ints(tril(full({1, 2}, std::numeric_limits<double>::quiet_NaN()).slice(1, 0, 2), -2)) == Ints{0, 0});
  CHECK(triu(zeros({3, 0})).shape() == Shape{3, 0});
  CHECK_THROWS_WITH(tril(zeros({3})), contains("tril: ") && contains("(3,)") && contains("test_grids.cpp"));
  CHECK_THROWS_AS(triu(NDArray()), ValueError);
  const NDArray wide = random_array({2, 3, 4}, 1, -1, 1, float64);
  CHECK(gradient_differences([](const auto& in) { return tril(in[0], 1) * triu(in[0]); }, {wide}) == "");
}

TEST_CASE("full_like has shape, type and device of an array", "[operator][grids]") {
  const NDArray x = zeros({2, 3}, {.dtype = int32});
  CHECK(full_like(x, 7).dtype() == int32);
  CHECK(ints(full_like(x, 7)) == Ints(6, 7));
  CHECK_THROWS_WITH(full_like(x, 0.5), contains("0.5") && contains("test_grids.cpp"));
  CHECK_THROWS_AS(full_like(NDArray(), 1), ValueError);
}

TEST_CASE("Who writes a grid leaves the arrays that it was made of as they were", "[operator][grids]") {
  const NDArray x = arange(0, 3), one = ones({1});
  for (NDArray made : {meshgrid({x})[0], call_all("meshgrid", {x})[0]}) {
    made += 10;
    CHECK(ints(made) == Ints{10, 11, 12});
    CHECK(ints(x) == Ints{0, 1, 2});
  }
  for (const NDArray& made : {meshgrid({x, one})[0], call_all("meshgrid", {x, one})[0]}) {
    NDArray(made).assign(7);
    CHECK(ints(x) == Ints{0, 1, 2});
  }
  NDArray stretched = meshgrid({x, x})[0];
  CHECK_THROWS_AS(stretched += 1, ValueError);
}

TEST_CASE("meshgrid stretches each array along the axes of the others", "[operator][grids]") {
  const NDArray x = arange(0, 3), y = arange(10, 12);
  const std::vector<NDArray> xy = meshgrid({x, y});
  REQUIRE(xy.size() == 2);
  CHECK(xy[0].shape() == Shape{2, 3});
  CHECK(ints(xy[0]) == Ints{0, 1, 2, 0, 1, 2});
  CHECK(ints(xy[1]) == Ints{10, 10, 10, 11, 11, 11});
  const std::vector<NDArray> ij = meshgrid({x, y, full({}, 5)}, GridOrder::ij);
  CHECK(ij[0].shape() == Shape{3, 2, 1});
  CHECK(ints(ij[0]) == Ints{0, 0, 1, 1, 2, 2});
  CHECK(ints(ij[1]) == Ints{10, 11, 10, 11, 10, 11});
  CHECK(ints(ij[2]) == Ints(6, 5));
  CHECK(meshgrid({x, zeros({0})})[0].shape() == Shape{0, 3});
  CHECK(meshgrid({}).empty());
  CHECK(ints(meshgrid({x})[0]) == Ints{0, 1, 2});
  CHECK_THROWS_AS(meshgrid({zeros({2, 2})}), ShapeError);
  CHECK_THROWS_AS(meshgrid(std::vector<NDArray>(9, x)), ValueError);
}

TEST_CASE("tril and triu cut each matrix at any diagonal, however it lies", "[operator][grids][gpu]") {
  const std::vector<Device> devices = num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
  for (const Device device : devices) {
    for (const Shape& shape : {Shape{2, 5, 7}, Shape{3, 8, 16}, Shape{1, 40, 33}, Shape{2, 1, 4}, Shape{4, 6, 1}}) {
      for (const DType dtype : {uint8, bfloat16, float32, float64}) {
        const NDArray x = random_array(shape, 1, 1, 9, dtype), there = x.to(device), turned = there.swapaxes(1, 2);
        const auto all = x.to_vector<double>();
        for (const std::int64_t k : {-50, -3, -1, 0, 1, 4, 50}) {
          CAPTURE(device, to_string(shape), dtype, k);
          Doubles lower = all, upper = all;
          for (std::size_t i = 0; i < all.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i), column = at % shape[2], row = at / shape[2] % shape[1];
            (column - row <= k ? upper : lower)[i] = column - row == k ? all[i] : 0;
          }
          CHECK(tril(there, k).to_vector<double>() == lower);
          CHECK(triu(there, k).to_vector<double>() == upper);
          CHECK(differences(triu(turned, -k).swapaxes(1, 2), tril(there, k), {0, 0}) == "");
        }
      }
    }
    const auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    CHECK(ints(tril(ones({2, 2}, {.device = device}), most)) == Ints{1, 1, 1, 1});
    CHECK(ints(triu(ones({2, 2}, {.device = device}), most)) == Ints{0, 0, 0, 0});
    CHECK(ints(triu(ones({2, 2}, {.device = device}), least)) == Ints{1, 1, 1, 1});
  }
}

TEST_CASE("diag makes a matrix of a vector, and takes the diagonal of a matrix", "[operator][grids]") {
  for (const DType dtype : all_dtypes()) {
    CAPTURE(dtype);
    const NDArray x = array<int>({1, 0, 1}).astype(dtype);
    CHECK(diag(x).dtype() == dtype);
    CHECK(ints(diag(x)) == Ints{1, 0, 0, 0, 0, 0, 0, 0, 1});
  }
  const NDArray x = array<float>({1, 2});
  CHECK(ints(diag(x, 1)) == Ints{0, 1, 0, 0, 0, 2, 0, 0, 0});
  CHECK(ints(diag(x, -1)) == Ints{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK(ints(diag(x.slice(0, 1, -3, -1))) == Ints{2, 0, 0, 1});
  CHECK(diag(zeros({0}), 2).shape() == Shape{2, 2});
  const NDArray wide = arange(0, 6).reshape({2, 3});
  CHECK(ints(diag(wide)) == Ints{0, 4});
  CHECK(ints(diag(wide, 1)) == Ints{1, 5});
  CHECK(ints(diag(wide, -1)) == Ints{3});
  CHECK(diag(wide, 5).shape() == Shape{0});
  CHECK(ints(diag(diag(wide))) == Ints{0, 0, 0, 4});
  NDArray taken = diag(wide);
  fill(taken, 9);  // a copy
  CHECK(ints(wide) == Ints{0, 1, 2, 3, 4, 5});
  CHECK_THROWS_WITH(diag(zeros({})), contains("diag: ") && contains("()") && contains("test_grids.cpp"));
  CHECK_THROWS_AS(diag(zeros({1, 1, 1})), ShapeError);
  CHECK_THROWS_AS(diag(x, std::numeric_limits<std::int64_t>::min()), ShapeError);
  for (const std::int64_t k : {-2, 0, 1}) {
    CAPTURE(k);
    const auto f = [=](const auto& v) { return diag(v[0], k); };
    for (const Shape& shape : {Shape{3}, Shape{3, 4}}) {
      CHECK(gradient_differences(f, {random_array(shape, 1, -1, 1, float64)}) == "");
      CHECK(traced_differences(f, {random_array(shape, 2)}) == "");
    }
  }
}

TEST_CASE("Arrays of a form are made by name", "[operator][grids]") {
  CHECK(difference(call("eye", {}, "rows=3, columns=4, k=-1, dtype=int32"), eye(3, 4, -1, {.dtype = int32})) == "");
  CHECK(difference(call("eye", {}, "rows=2"), eye(2)) == "");
  CHECK(difference(call("linspace", {}, "start=1, stop=2, count=7"), linspace(1, 2, 7)) == "");
  CHECK(difference(call("linspace", {}), linspace(0, 1)) == "");
  const NDArray x = arange(0, 3), y = arange(0, 2);
  const Arrays grid = call_all("meshgrid", {x, y});
  CHECK(difference(grid[1], meshgrid({x, y})[1]) == "");
  CHECK(difference(call("meshgrid", {x, y}, "xy=false"), meshgrid({x, y}, GridOrder::ij)[0]) == "");
  CHECK_THROWS_AS(call("meshgrid", {x, zeros({2, 2})}), ShapeError);
  const NDArray whole = random_array({2, 3, 4}, 1);
  CHECK(difference(call("tril", {whole}, "k=1"), tril(whole, 1)) == "");
  CHECK(difference(call("triu", {whole}), triu(whole)) == "");
  CHECK(difference(call("diag", {x}, "k=1"), diag(x, 1)) == "");
  CHECK(difference(call("rot90", {whole}, "k=3, axes=(-1, 0)"), rot90(whole, 3, {-1, 0})) == "");
  CHECK(difference(call("rot90", {whole}), rot90(whole)) == "");
  CHECK(
      difference(call("moveaxis", {whole}, "source=(0, 1), destination=(-1, 0)"), moveaxis(whole, {0, 1}, {-1, 0})) ==
      "");
  CHECK_THROWS_AS(call("rot90", {whole}, "axes=(0,)"), ValueError);
}

TEST_CASE("Traces of tril serve for other numbers of rows, whatever is asked of them", "[operator][grids][graph]") {
  for (const Shape& shape : {Shape{3, 3}, Shape{3, 2, 2}}) {
    graph::Tracer tracer;
    const NDArray x = tracer.input({shape, float32, cpu()});
    const sluice::detail::ShapeWatch watch;
    tracer.trace([&] { return Arrays{tril(x)}; });
    const std::vector<std::uint64_t>& seen = watch.seen();
    CHECK(std::find(seen.begin(), seen.end(), abstract_value(x)) == seen.end());
  }
  CHECK(traced_differences([](const auto& v) { return tril(v[0], 1) + triu(v[0]); }, {random_array({4, 3}, 1)}) == "");
}

TEST_CASE("Arrays of a form are the same on a GPU", "[operator][grids][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ArrayOptions there{.device = gpu()};
  CHECK(differences(eye(3, 4, 1, there).to(cpu()), eye(3, 4, 1)) == "");
  CHECK(differences(linspace(-1, 2, 7, there).to(cpu()), linspace(-1, 2, 7)) == "");
  const NDArray x = random_array({2, 4, 5}, 3);
  CHECK(differences(tril(x.to(gpu()), -1).to(cpu()), tril(x, -1)) == "");
  const NDArray row = random_array({4}, 4);
  CHECK(differences(diag(row.to(gpu()), -1).to(cpu()), diag(row, -1), {0, 0}) == "");
}
