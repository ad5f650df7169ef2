#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

// Arrays of different extents along `axis`, with an empty one and a strided one among them.
std::vector<NDArray> pieces(int axis, DType dtype, Device device = cpu()) {
  std::vector<NDArray> made;
  std::uint64_t seed = 1;
  for (std::int64_t extent : {3, 0, 1, 7, 4}) {
    Shape shape = {2, 5, 6};
    shape[axis] = extent;
    made.push_back(test::random_array(shape, seed++, -9, 9, dtype, device));
  }
  Shape turned = {2, 5, 6};
  turned[axis] = 2;
  made.push_back(test::random_array({turned[2], turned[1], turned[0]}, seed, -9, 9, dtype, device).transpose());
  return made;
}

// Element by element through index arithmetic.
NDArray reference(const std::vector<NDArray>& arrays, int axis) {
  Shape shape = arrays[0].shape();
  shape[axis] = 0;
  for (const NDArray& array : arrays)
    shape[axis] += array.shape()[axis];
  test::Dense result(shape, 0);
  std::int64_t begin = 0;
  for (const NDArray& array : arrays) {
    const test::Dense from(array);
    for (std::size_t i = 0; i < from.values.size(); ++i) {
      auto index = test::unravel(from.shape, static_cast<std::int64_t>(i));
      index[static_cast<std::size_t>(axis)] += begin;
      result.values[static_cast<std::size_t>(test::ravel(shape, index))] = from.values[i];
    }
    begin += array.shape()[axis];
  }
  return result.array();
}

TEST_CASE("concat agrees with plain loops for every type and axis") {
  for (DType dtype : test::all_dtypes()) {
    for (int axis : {0, 1, 2}) {
      INFO(dtype << " axis " << axis);
      const auto arrays = pieces(axis, dtype);
      const NDArray joined = concat(arrays, axis - 3);
      CHECK(joined.dtype() == dtype);
      CHECK(test::differences(joined, reference(arrays, axis)) == "");
    }
  }
}

TEST_CASE("concat of large arrays and of one, of none and of other types") {
  const NDArray a = test::random_array({300, 1000}, 1), b = test::random_array({300, 77}, 2);
  CHECK(test::differences(concat({a, b}, 1), reference({a, b}, 1)) == "");
  CHECK(test::differences(concat({a, a}), reference({a, a}, 0)) == "");
  CHECK(test::differences(concat({b}), b) == "");
  CHECK_THROWS_AS(concat(std::vector<NDArray>{}), ValueError);
  const NDArray mixed = concat({array<int>({1, 2}), array<float>({0.5f})});
  CHECK(mixed.dtype() == float32);
  CHECK(mixed.to_vector<double>() == std::vector<double>{1, 2, 0.5});
}

TEST_CASE("concat and stack refuse what does not fit and name themselves") {
  CHECK_THROWS_WITH(
      concat({zeros({2, 3}), zeros({2, 4})}, 0), sluice::test::contains("concat: array 1 of shape (2, 4)"));
  CHECK_THROWS_AS(concat({zeros({2, 3}), zeros({2})}, 1), ShapeError);
  CHECK_THROWS_AS(concat({zeros({2}), zeros({2})}, 1), IndexError);
  CHECK_THROWS_AS(concat({zeros({}), zeros({})}), IndexError);
  CHECK_THROWS_WITH(stack({zeros({2}), zeros({3})}), sluice::test::contains("stack: array 1 has shape (3,)"));
  CHECK_THROWS_AS(stack({zeros({2})}, 2), IndexError);
}

TEST_CASE("stack joins along a new axis") {
  const NDArray a = array<float>({1, 2, 3}), b = array<float>({4, 5, 6});
  CHECK(stack({a, b}).to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(stack({a, b}, -1).to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(stack({full({}, 1), full({}, 2)}).to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("split makes views that concat joins again") {
  const NDArray x = test::random_array({4, 6}, 3);
  for (int axis : {0, 1}) {
    const auto parts = split(x, 2, axis);
    REQUIRE(parts.size() == 2);
    CHECK(parts[1].shape()[axis] == x.shape()[axis] / 2);
    CHECK(test::differences(concat(parts, axis), x) == "");
  }
  const auto uneven = split(x, std::vector<std::int64_t>{1, 4}, -1);
  REQUIRE(uneven.size() == 3);
  CHECK(uneven[1].shape() == Shape{4, 3});
  CHECK(test::differences(concat(uneven, 1), x) == "");
  uneven[0].assign(7);
  CHECK(x.slice(1, 0, 1).to_vector<float>() == std::vector<float>{7, 7, 7, 7});
  CHECK_THROWS_WITH(split(x, 4, 1), sluice::test::contains("split") && sluice::test::contains("(4, 6)"));
  CHECK_THROWS_AS(split(x, 0), ValueError);
  CHECK_THROWS_AS(split(x, 2, 2), IndexError);
}

TEST_CASE("gradients of concat, stack and split agree with finite differences") {
  const NDArray a = test::random_array({2, 3}, 4, -1, 1, float64), b = test::random_array({2, 2}, 5, -1, 1, float64);
  CHECK(test::gradient_differences([](const auto& in) { return concat({in[0], in[1], in[0]}, 1); }, {a, b}) == "");
  CHECK(test::gradient_differences([](const auto& in) { return stack({in[0], in[0] * in[1]}, 1); }, {a, a * 2}) == "");
  const auto parts = [](const auto& in) {
    const auto cut = split(in[0], 3, 1);
    return cut[0] * cut[2];
  };
  CHECK(test::gradient_differences(parts, {a}) == "");
}

TEST_CASE("concat of arrays of more than 32 inputs") {
  std::vector<NDArray> many;
  for (int i = 0; i < 150; ++i)
    many.push_back(full({2, 1 + i % 3}, i));
  CHECK(test::differences(concat(many, 1), reference(many, 1)) == "");
}

TEST_CASE("concat on a GPU agrees with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::all_dtypes()) {
    for (int axis : {0, 1, 2}) {
      INFO(dtype << " axis " << axis);
      CHECK(
          test::differences(concat(pieces(axis, dtype, gpu()), axis).to(cpu()), reference(pieces(axis, dtype), axis)) ==
          "");
    }
  }
  std::vector<NDArray> many, on_gpu;
  for (int i = 0; i < 150; ++i) {
    many.push_back(test::random_array({16, 4 * (i % 5)}, static_cast<std::uint64_t>(i)));
    on_gpu.push_back(many.back().to(gpu()));
  }
  CHECK(test::differences(concat(on_gpu, 1).to(cpu()), reference(many, 1)) == "");
  CHECK(test::differences(concat(on_gpu, 1).slice(1, 3, 200).to(cpu()), reference(many, 1).slice(1, 3, 200)) == "");
}

// Enough that a GPU writes vectors: they begin and end within rows, span short arrays, and stop at both ends of inputs.
TEST_CASE("concat on a GPU joins rows of odd lengths, of few arrays and of more", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {int8, float16, float32}) {
    for (const std::vector<std::int64_t>& widths : std::vector<std::vector<std::int64_t>>{
             {129, 128},
             {1, 2, 3, 300, 1},
             {70000},
             {33333, 32769},
             {17, 1, 1, 1, 31, 16, 15, 14, 7, 8, 9, 101, 3, 5, 2, 64},
             {17, 1, 1, 1, 31, 16, 15, 14, 7, 8, 9, 101, 3, 5, 2, 63, 1},
             std::vector<std::int64_t>(70, 3)}) {  // more than a launch takes
      std::int64_t whole = 0;
      for (const std::int64_t width : widths)
        whole += width;
      const std::int64_t rows = 65599 / whole + 1;
      std::vector<NDArray> here, there;
      for (const std::int64_t width : widths) {
        const NDArray x = test::random_array({rows, width + 1}, here.size() + 3, -9, 9, dtype);
        here.push_back(x.slice(1, 1, width + 1).copy());
        // Not at a multiple of 16 bytes either.
        const NDArray flat = concat({x.slice(0, 0, 1).reshape({width + 1}), here.back().reshape({rows * width})}, 0);
        there.push_back(flat.to(gpu()).slice(0, width + 1, flat.shape()[0]).reshape({rows, width}));
      }
      CAPTURE(dtype, widths);
      CHECK(test::differences(concat(there, 1).to(cpu()), concat(here, 1)) == "");
    }
  }
}

}  // namespace
}  // namespace sluice
