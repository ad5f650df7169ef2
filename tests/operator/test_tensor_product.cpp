// Products in TF32 by our own kernel: what it takes, and that only rounding to TF32 tells it from the exact product.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/matmul/tensor_product.h>

#include "tests/operator/random_program.h"
#include "tests/operator/run_kernel.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Extents {
  std::int64_t m, k, n;
};

/// Rounded to TF32's 10 bits, ties away from 0.
float to_tf32(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

NDArray rounded(const NDArray& x) {
  std::vector<float> values = x.to_vector<float>();
  for (float& value : values)
    value = to_tf32(value);
  return array(values, x.shape());
}

NDArray wide(const NDArray& x) {
  return x.astype(float64);
}

/// "" if `made` is the product of the operands rounded to TF32, up to sums in float32.
std::string product_differences(const NDArray& made, const NDArray& a, const NDArray& b) {
  const NDArray left = wide(rounded(a)), right = wide(rounded(b));
  const NDArray wanted = matmul(left, right), scale = matmul(abs(left), abs(right));
  return differences(wide(made.to(cpu())) / (scale + 1e-30), wanted / (scale + 1e-30), {0, 4e-6});
}

/// An array of that shape whose rows or whose columns are neighbours.
NDArray laid(const NDArray& x, bool turned) {
  return (turned ? x.T().copy().to(gpu()).T() : x.to(gpu()));
}

bool is_taken(const NDArray& a, const NDArray& b, const NDArray& c) {
  bool taken = false;
  run_kernel({a, b, c}, [&](const Queue& queue) {
    const auto matrix = [](const NDArray& x) { return detail::Matrix{data_of(x), x.strides()[0], x.strides()[1], 0}; };
    detail::GemmProblem p{.m = a.shape()[0], .n = b.shape()[1], .k = a.shape()[1]};
    p.a = matrix(a);
    p.b = matrix(b);
    p.c = matrix(c);
    taken = detail::takes_tensor_product(queue, p);
  });
  Engine::current().wait_all();
  return taken;
}

// One past the extents of tiles and stretches, sums cut in 1 to 8 parts, few and many tiles.
const std::vector<Extents> k_extents = {
    {256, 784, 128},
    {64, 5408, 64},
    {33, 1028, 260},
    {4, 16384, 4},
    {128, 2052, 36},
    {1, 4096, 2052},
    {100, 32, 2600},
    {36, 1280, 1028},
    {512, 288, 64}};

}  // namespace

TEST_CASE("Our products in TF32 differ from exact ones by that rounding alone", "[gpu][hardware][tensor_product]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const auto [m, k, n] : k_extents) {
    const NDArray a = random_array({m, k}, 1, -1, 1), b = random_array({k, n}, 2, -1, 1);
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        CAPTURE(m, k, n, turn_a, turn_b);
        if ((turn_a && m % 4 != 0) || (!turn_b && n % 4 != 0))
          continue;  // not aligned: cuBLASLt's
        const NDArray left = laid(a, turn_a), right = laid(b, turn_b);
        const NDArray made = matmul(left, right);
        if (m * k * n > 8'000'000 || k > 1024) {
          CHECK(is_taken(left, right, made));
        }
        CHECK(product_differences(made, a, b) == "");
        CHECK(made.to_vector<float>() == matmul(left, right).to_vector<float>());
      }
    }
  }
}

TEST_CASE("Our products in TF32 add biases, keep NaN in a relu and sum rows", "[gpu][hardware][tensor_product]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const auto [m, k, n] : {Extents{256, 784, 128}, {68, 1236, 132}, {64, 9216, 128}}) {
    CAPTURE(m, k, n);
    NDArray x = random_array({m, k}, 1, -1, 1);
    const NDArray weight = random_array({n, k}, 2, -1, 1), bias = random_array({n}, 3, -5, 5);
    const NDArray plain = matmul(x.to(gpu()), weight.to(gpu()).T());
    const NDArray with_bias = dense(x.to(gpu()), weight.to(gpu()), bias.to(gpu()));
    const NDArray with_relu = dense(x.to(gpu()), weight.to(gpu()), bias.to(gpu()), {.activation = "relu"});
    CHECK(all_bytes({with_bias}) == all_bytes({plain + bias.to(gpu())}));
    CHECK(all_bytes({with_relu}) == all_bytes({relu(plain + bias.to(gpu()))}));
    // dW = dy^T x and the sums of dy's columns.
    const NDArray dy = random_array({m, n}, 4, -1, 1);
    const Arrays grads = invoke(
        detail::dense_backward_weights_op,
        Arrays{dy.to(gpu()), x.to(gpu())},
        parse_attributes(detail::dense_backward_weights_op, "bias=true"),
        SourceLocation::current());
    CHECK(product_differences(grads[0], dy.T(), x) == "");
    CHECK(differences(grads[1].to(cpu()), sum(wide(dy), {0}).astype(float32), {1e-5, 1e-5}) == "");
    std::vector<float> values = x.to_vector<float>();
    values[0] = NAN;
    values[static_cast<std::size_t>(k)] = INFINITY;
    x = array(values, {m, k}, gpu());
    const std::vector<float> made =
        dense(x, weight.to(gpu()), bias.to(gpu()), {.activation = "relu"}).to_vector<float>();
    for (std::int64_t j = 0; j < n; ++j) {
      CHECK(std::isnan(made[static_cast<std::size_t>(j)]));
      const bool above = weight.to_vector<float>()[static_cast<std::size_t>(j * k)] > 0;
      CHECK(made[static_cast<std::size_t>(n + j)] == (above ? INFINITY : 0.0f));
    }
  }
}

TEST_CASE("A masked product in TF32 is the product, then the mask", "[gpu][hardware][tensor_product]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const auto [m, k, n] : {Extents{256, 784, 128}, {64, 128, 9216}, {2048, 2048, 64}}) {
    CAPTURE(m, k, n);
    const NDArray a = random_array({m, k}, 1, -1, 1).to(gpu()), b = random_array({k, n}, 2, -1, 1).to(gpu());
    const NDArray y = relu(random_array({m, n}, 3, -1, 1)).to(gpu());
    const Operator& masked = *find_operator("matmul_relu_backward");
    const Attributes attributes = parse_attributes(masked, "transpose_a=false, transpose_b=false");
    const NDArray made = invoke_one(masked, {a, b, y}, attributes, SourceLocation::current());
    CHECK(all_bytes({made}) == all_bytes({where(y > 0, matmul(a, b), zeros_like(y))}));
  }
}

TEST_CASE("Gradients that are added come to products in TF32 too", "[gpu][hardware][tensor_product]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  const NDArray x = random_array({256, 784}, 1, -1, 1).to(gpu());
  NDArray weight = random_array({128, 784}, 2, -1, 1).to(gpu());
  weight.attach_grad(GradReq::add);
  NDArray once;
  for (int turn = 0; turn < 2; ++turn) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = dense(x, weight, {});
    }
    y.backward();
    if (turn == 0)
      once = weight.grad().copy();
  }
  CHECK(differences((weight.grad() / 2.0).to(cpu()), once.to(cpu()), {1e-6, 1e-6}) == "");
}

TEST_CASE("Our products in TF32 leave to a library what is not theirs", "[gpu][hardware][tensor_product]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = ones({256, 784}, {.device = gpu()}), b = ones({784, 128}, {.device = gpu()});
  const NDArray c = zeros({256, 128}, {.device = gpu()});
  CHECK_FALSE(is_taken(a, b, c));  // precision is highest
  const WithTf32 tf32;
  CHECK(is_taken(a, b, c));
  const NDArray odd = ones({256, 787}, {.device = gpu()});
  CHECK_FALSE(is_taken(odd.slice(1, 0, 784), b, c));  // rows begin anywhere
  CHECK_FALSE(is_taken(ones({256, 788}, {.device = gpu()}).slice(1, 1, 785), b, c));
  const NDArray large = ones({4096, 4096}, {.device = gpu()});
  CHECK_FALSE(is_taken(large, large, large));
  const NDArray long_row = ones({4, 16388}, {.device = gpu()}), long_column = ones({16388, 4}, {.device = gpu()});
  CHECK_FALSE(is_taken(long_row, long_column, zeros({4, 4}, {.device = gpu()})));
}
