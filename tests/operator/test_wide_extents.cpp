// Axes of 2^32 entries and more, which no 32 bits count: lying once in memory, beside an extent of 0, or as shapes
// alone, so that no test takes the memory.
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/matmul/product.h>

#include "tests/operator/run_kernel.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::int64_t k_wide = (std::int64_t{1} << 32) + 3;  // 3 in 32 bits

/// One element, k_wide times.
NDArray line_of(DType dtype, double value) {
  return full({1}, value, {.dtype = dtype}).broadcast_to({k_wide});
}

Shape inferred(const char* name, const std::vector<Shape>& shapes, const std::string& attributes = "") {
  const Operator& op = *find_operator(name);
  std::vector<ArraySpec> specs;
  for (const Shape& shape : shapes)
    specs.push_back({shape, float32, cpu()});
  return op.infer(op, specs, parse_attributes(op, attributes))[0].shape;
}

}  // namespace

TEST_CASE("Reductions count more terms than 32 bits do", "[wide]") {
  CHECK(sum(line_of(uint8, 3)).item<std::int64_t>() == 3 * k_wide);
  CHECK(all(line_of(bool_, 1)).item<bool>());
}

TEST_CASE("What lies beyond 2^32 entries is reached", "[wide]") {
  const NDArray x = array<std::int32_t>({1, 2}).broadcast_to({k_wide, 2});
  CHECK(sum(x.slice(0, k_wide - 3, k_wide), {1}).to_vector<int>() == std::vector<int>{3, 3, 3});
  CHECK(argmax(x.slice(0, k_wide - 1, k_wide), 1).to_vector<int>() == std::vector<int>{1});
  CHECK(mean(x.slice(0, 1, k_wide, std::int64_t{1} << 31)).item<float>() == 1.5F);
  const NDArray rows = take(x, array<std::int64_t>({k_wide - 1, -k_wide, 0}), 0);
  CHECK(rows.to_vector<int>() == std::vector<int>{1, 2, 1, 2, 1, 2});
  CHECK_THROWS_WITH(take(x, array<std::int64_t>({k_wide}), 0).wait_to_read(), contains("4294967299 is out of bounds"));
}

TEST_CASE("Reductions and norms of nothing beside 2^32 entries", "[wide]") {
  const NDArray rows = zeros({k_wide, 0}), columns = zeros({0, k_wide});
  for (const NDArray& x : {rows, columns}) {
    const int none = x.shape()[0] == 0 ? 0 : 1;
    CHECK(sum(x).item<float>() == 0);
    CHECK(prod(x).item<float>() == 1);
    CHECK(sum(x, {1 - none}).shape() == Shape{0});
    CHECK(max(x, {1 - none}).shape() == Shape{0});
    CHECK(argmax(x, 1 - none).shape() == Shape{0});
    CHECK(logsumexp(x, {1 - none}).shape() == Shape{0});
    CHECK(softmax(x, 1 - none).shape() == x.shape());
    CHECK(cumsum(x, 1 - none).shape() == x.shape());
    CHECK_THROWS_WITH(max(x, {none}), contains("max") && contains("4294967299"));
  }
  // Channels have no element each: their sums are known without a walk over the batch.
  NDArray planes = zeros({k_wide, 3, 2, 0});
  planes.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = batch_norm(planes, ones({3}), zeros({3}), zeros({3}), ones({3}));
  y.backward(zeros(y.shape()));
  CHECK(planes.grad().shape() == planes.shape());
}

TEST_CASE("Products with extents of 2^32 have the shapes that they should", "[wide]") {
  CHECK(matmul(zeros({k_wide, 0}), zeros({0, 0})).shape() == Shape{k_wide, 0});
  CHECK(matmul(zeros({0, k_wide}), zeros({k_wide, 0})).shape() == Shape{0, 0});
  CHECK(matmul(zeros({k_wide, 2, 0}), zeros({0, 0})).shape() == Shape{k_wide, 2, 0});
  CHECK(dense(zeros({k_wide, 0}), zeros({0, 0}), {}).shape() == Shape{k_wide, 0});
  NDArray x = zeros({0, k_wide}), w = zeros({k_wide, 0});
  x.attach_grad();
  w.attach_grad();
  {
    const autograd::RecordScope record;
    sum(matmul(x, w)).backward();
  }
  CHECK(x.grad().shape() == x.shape());
  CHECK(w.grad().shape() == w.shape());

  CHECK(inferred("matmul", {{k_wide, 5}, {5, k_wide}}) == Shape{k_wide, k_wide});
  CHECK(inferred("matmul", {{7, k_wide}, {k_wide}}) == Shape{7});
  CHECK(inferred("matmul", {{k_wide, 2, 3}, {1, 3, 4}}) == Shape{k_wide, 2, 4});
  CHECK(inferred("dense", {{k_wide, 5}, {7, 5}}) == Shape{k_wide, 7});
  CHECK(inferred("dense", {{2, 3, k_wide}, {7, 3 * k_wide}}, "flatten=true") == Shape{2, 7});
  CHECK_THROWS_WITH(inferred("matmul", {{2, k_wide}, {3, 4}}), contains("(2, 4294967299) and (3, 4)"));
  CHECK_THROWS_AS(inferred("matmul", {{2, k_wide}, {3, 4}}), ShapeError);
  CHECK_THROWS_WITH(inferred("dense", {{2, k_wide}, {4, 3}}), contains("has 4294967299 features a sample"));
  CHECK_THROWS_AS(inferred("dense", {{2, k_wide}, {4, 3}}), ShapeError);
}

TEST_CASE("Batches of more matrices than a library counts are multiplied in parts", "[wide]") {
  const NDArray a = random_array({7, 2, 3}, 1, -1, 1), b = random_array({3, 4}, 2, -1, 1), c = zeros({7, 2, 4});
  std::vector<std::int64_t> batches;
  run_kernel({a, b, c}, [&](const Queue& queue) {
    detail::GemmProblem p{.batch = 7, .m = 2, .n = 4, .k = 3};
    p.a = {data_of(a), 3, 1, 6};
    p.b = {data_of(b), 4, 1, 0};
    p.c = {data_of(c), 4, 1, 8};
    detail::for_each_part_of_batch(p, 3, [&](const detail::GemmProblem& part) {
      batches.push_back(part.batch);
      detail::product_cpu(queue, part);
    });
  });
  CHECK(differences(c, matmul(a, b)) == "");
  CHECK(batches == std::vector<std::int64_t>{3, 3, 1});
}
