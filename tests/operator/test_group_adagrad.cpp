// GroupAdaGrad along rows of all lengths. That it follows its formula as all rules do: test_update_rules.cpp.
#include <cmath>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/rule_references.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::Followed;
using update_rules::GroupAdaGrad;

// Rows for a thread, a warp and a block of a GPU, with and without elements left over.
const Shape k_rows[] = {{2000, 2}, {700, 3}, {9, 4}, {5, 1, 33}, {3, 1024}, {4, 1025}, {2, 3, 1000}, {1, 20000}};

void check_rows(DType dtype, Device device) {
  for (const Shape& shape : k_rows) {
    CAPTURE(shape, dtype);
    const GroupAdaGrad rule;
    const NDArray weight = test::random_array(shape, 1, -1, 1, dtype, device);
    const DType type = dtype == float64 ? float64 : float32;
    const std::vector<std::vector<NDArray>> states = {
        {zeros(rule.state_shape(0, shape), {.dtype = type, .device = device})}};
    Followed wanted(weight.to_vector<double>());
    wanted.shape = shape;
    wanted.lr = 0.1;
    wanted.wd = 0.01;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const NDArray grad = test::random_array(shape, step + 7, -1, 2, dtype, device);
      const UpdateOptions options{.learning_rate = 0.1, .weight_decay = 0.01};
      wanted.take(grad.to_vector<double>(), options);
      optimizer_update(rule, {&weight, 1}, {&grad, 1}, states, options);
      follow(rule, wanted);
    }
    const test::Tolerance tolerance = dtype == float64 ? test::Tolerance{1e-12, 1e-13} : test::Tolerance{1e-5, 1e-6};
    CHECK(test::differences(weight, array(wanted.w, shape), tolerance) == "");
  }
}

// A row's state is its own: what stands in others changes nothing there.
void check_apart(Device device) {
  const GroupAdaGrad rule{.epsilon = 0};
  const NDArray weight = zeros({2, 3}, {.device = device});
  const NDArray grad = array<float>({1, 1, 1, 8, 0, 0}, {2, 3}).to(device), history = zeros({2, 1}, {.device = device});
  optimizer_update(
      rule, {&weight, 1}, {&grad, 1}, std::vector<std::vector<NDArray>>{{history}}, {.learning_rate = 0.5});
  CHECK(test::differences(history, array<float>({1, 64.0F / 3}, {2, 1}), {1e-6, 0}) == "");
  const float step = 0.5F * 8 / std::sqrt(64.0F / 3);
  CHECK(test::differences(weight, array<float>({-0.5, -0.5, -0.5, -step, 0, 0}, {2, 3}), {1e-6, 0}) == "");
}

}  // namespace

TEST_CASE("GroupAdaGrad takes rows of every length", "[update]") {
  check_rows(float64, cpu());
  check_rows(float32, cpu());
  check_apart(cpu());
}
TEST_CASE("GroupAdaGrad on a GPU takes rows of every length", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_rows(float64, gpu());
  check_rows(float32, gpu());
  check_apart(gpu());
}

TEST_CASE("GroupAdaGrad's small steps add up in masters", "[update]") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(dtype);
    const NDArray weight = ones({20, 35}, {.dtype = dtype}), grad = ones({20, 35}, {.dtype = dtype});
    const NDArray master = zeros({20, 35}), history = zeros({20, 1});
    // Of a rate that undoes the growth of the root: each step is as long as the first.
    for (int i = 1; i <= 64; ++i) {
      const UpdateOptions options{.learning_rate = 0x1p-12 * std::sqrt(i), .masters = {master}};
      optimizer_update(
          GroupAdaGrad{.epsilon = 0}, {&weight, 1}, {&grad, 1}, std::vector<std::vector<NDArray>>{{history}}, options);
    }
    CHECK(test::differences(master, full({20, 35}, 1 - 0x1p-6), {0, 1e-6}) == "");
    CHECK(weight.to_vector<float>() == full({20, 35}, 1 - 0x1p-6).to_vector<float>());
  }
}

}  // namespace sluice
