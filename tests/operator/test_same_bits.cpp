// Same seed, same bits: whatever the number of workers, and whatever else they do.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using Bits = std::vector<std::vector<std::uint32_t>>;

void add_bits(Bits& bits, const NDArray& array) {
  const std::vector<float> values = array.to_vector<float>();
  std::vector<std::uint32_t> words(values.size());
  std::memcpy(words.data(), values.data(), values.size() * sizeof(float));
  bits.push_back(std::move(words));
}

/// The loss and all gradients of one step; every operator is large enough to be cut into several pieces.
struct Net {
  NDArray x = test::random_array({21, 8, 18, 18}, 1, -1, 1);
  NDArray conv1 = test::random_array({32, 8, 3, 3}, 2, -1, 1), bias1 = test::random_array({32}, 3, -1, 1);
  NDArray conv2 = test::random_array({48, 32, 3, 3}, 4, -1, 1), bias2 = test::random_array({48}, 5, -1, 1);
  NDArray dense1 = test::random_array({260, 48 * 49}, 6, -0.1, 0.1), bias3 = test::random_array({260}, 7, -1, 1);
  NDArray dense2 = test::random_array({30, 260}, 8, -1, 1);
  NDArray wide = test::random_array({3000, 33}, 9, -1, 1), narrow = test::random_array({70, 33}, 10, -1, 1);

  Bits step() {
    NDArray* const all[] = {&x, &conv1, &bias1, &conv2, &bias2, &dense1, &bias3, &dense2, &wide, &narrow};
    for (NDArray* array : all)
      array->attach_grad();
    NDArray loss, scores;
    {
      const autograd::RecordScope record;
      const NDArray first = max_pool2d(relu(convolution(x, conv1, bias1)), {.kernel = {2, 2}, .stride = {2, 2}});
      const NDArray second = convolution(first, conv2, bias2, {.pad = {1, 1}});
      const NDArray third = dense(second.slice(2, 0, 7).slice(3, 0, 7), dense1, bias3, {.activation = "relu"});
      scores = dense(third, dense2, {});
      loss = sum(square(scores)) + sum(square(dense(wide, narrow, {})));
    }
    loss.backward();
    Bits bits;
    add_bits(bits, scores);
    add_bits(bits, loss);
    for (NDArray* array : all)
      add_bits(bits, array->grad());
    return bits;
  }
};

/// Tasks that keep workers busy now and then, while it lives.
void load(Engine& engine, int tasks) {
  for (int i = 0; i < tasks; ++i) {
    Var var = engine.new_var();
    engine.push({.name = "load", .access = {write(var)}}, [n = 2000 * (1 + i % 7)] {
      volatile double x = 1;
      for (int j = 0; j < n; ++j)
        x = x * 1.0000001;
    });
  }
}

// Which of two steps' results differ, and where first.
std::string difference(const Bits& got, const Bits& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    for (std::size_t j = 0; j < want[i].size(); ++j) {
      if (got[i][j] != want[i][j])
        return message("result ", i, ", element ", j);
    }
  }
  return got.size() == want.size() ? "" : "another number of results";
}

Bits step_with(const EngineOptions& options, int steps, int tasks) {
  Engine engine(options);
  const EngineScope scope(engine);
  Net net;
  const Bits first = net.step();
  for (int i = 1; i < steps; ++i) {
    load(engine, tasks);
    CHECK(difference(net.step(), first) == "");
  }
  engine.wait_all();
  return first;
}

// Largest difference from the same in float64, which our own kernels compute whole, as a part of the largest value.
double error_of(const NDArray& got, const NDArray& wide) {
  const std::vector<double> a = got.to_vector<double>(), b = wide.to_vector<double>();
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

// f(inputs) and the gradients of all inputs, in float32 and in float64.
template <class F>
void check_pieces(std::vector<Shape> shapes, const F& f) {
  std::vector<NDArray> results[2];
  for (const DType dtype : {float32, float64}) {
    std::vector<NDArray> inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs.push_back(test::random_array(shapes[i], 20 + i, -1, 1, float32).astype(dtype));
      inputs.back().attach_grad();
    }
    NDArray y;
    {
      const autograd::RecordScope record;
      y = f(inputs);
    }
    y.backward(test::random_array(y.shape(), 30, -1, 1, float32).astype(dtype));
    auto& into = results[dtype == float64];
    into.push_back(y);
    for (const NDArray& input : inputs)
      into.push_back(input.grad());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    CAPTURE(shapes[0], shapes[1], i);
    CHECK(error_of(results[0][i], results[1][i]) < 2e-6);
  }
}

}  // namespace

TEST_CASE("Products and convolutions that are cut into pieces agree with whole ones in float64") {
  const auto convolved = [](std::int64_t groups) {
    return [groups](const std::vector<NDArray>& in) {
      return convolution(in[0], in[1], in[2], {.pad = {1, 0}, .groups = groups});
    };
  };
  check_pieces({{21, 8, 18, 18}, {32, 8, 3, 3}, {32}}, convolved(1));     // images, the last piece shorter
  check_pieces({{1, 72, 20, 20}, {120, 72, 3, 3}, {120}}, convolved(1));  // channels
  check_pieces({{2, 128, 6, 6}, {144, 128, 3, 3}, {144}}, convolved(1));  // weights larger than images
  check_pieces({{9, 32, 16, 16}, {64, 16, 3, 3}, {64}}, convolved(2));
  const auto product = [](const std::vector<NDArray>& in) { return matmul(in[0], in[1]); };
  check_pieces({{500, 150}, {150, 170}}, product);
  check_pieces({{40, 300}, {300, 700}}, product);
  check_pieces({{13, 64, 96}, {13, 96, 80}}, product);
  check_pieces({{130, 64, 96}, {96, 80}}, product);
  check_pieces({{333, 260}, {270, 260}, {270}}, [](const std::vector<NDArray>& in) {
    return dense(in[0], in[1], in[2], {.activation = "relu"});
  });
}

TEST_CASE("A training step of convolutions and dense layers gives the same bits with 1, 2, 3 and 4 workers") {
  const Bits want = step_with({.workers = 1}, 1, 0);
  CHECK(want.size() == 12);
  for (const int workers : {2, 3, 4})
    CHECK(difference(step_with({.workers = workers}, 1, 0), want) == "");
  CHECK(difference(step_with({.cpu_policy = CpuMode::serial}, 1, 0), want) == "");
}

TEST_CASE("A training step gives the same bits 20 times with other work beside") {
  const Bits want = step_with({.workers = 1}, 1, 0);
  for (const int workers : {2, 3})
    CHECK(difference(step_with({.workers = workers}, 20, 60), want) == "");
}

}  // namespace sluice
