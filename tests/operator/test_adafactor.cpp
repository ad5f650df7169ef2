// Adafactor: matrices of all shapes over many steps, and what it says of its states. That it follows its formula as all
// rules do, by value and by reference: test_update_rules.cpp.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/rule_references.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::contains;
using test::Followed;
using update_rules::Adafactor;
using Lists = std::vector<std::vector<NDArray>>;

Lists states_of(const Adafactor& rule, const NDArray& weight) {
  Lists made(rule.states().size());
  const DType type = weight.dtype() == float64 ? float64 : float32;
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = {zeros(rule.state_shape(i, weight.shape()), {.dtype = type, .device = weight.device()})};
  return made;
}

/// Weights after so many steps that pull them to where they began, and the reference's.
void check_steps(const Adafactor& rule, const Shape& shape, DType dtype, Device device, int steps) {
  CAPTURE(shape, dtype);
  const NDArray weight = test::random_array(shape, 1, -1, 1, dtype, device);
  const Lists states = states_of(rule, weight);
  Followed wanted(weight.to_vector<double>());
  wanted.shape = shape;
  wanted.lr = 0.3;
  wanted.wd = 0.01;
  for (int step = 1; step <= steps; ++step) {
    const NDArray grad = test::random_array(shape, static_cast<std::uint64_t>(step) + 7, -1, 2, dtype, device);
    wanted.g = grad.to_vector<double>();
    wanted.t = step;
    optimizer_update(
        rule, {&weight, 1}, {&grad, 1}, states, {.learning_rate = 0.3, .weight_decay = 0.01, .steps = {step}});
    follow(rule, wanted);
  }
  const test::Tolerance tolerance = dtype == float64 ? test::Tolerance{1e-11, 1e-12} : test::Tolerance{2e-5, 2e-5};
  CHECK(test::differences(weight, array(wanted.w, shape), tolerance) == "");
}

// One strip and several, matrices of which several are one strip, rows and columns of one, rows longer than a strip.
const Shape k_matrices[] = {
    {3, 4}, {130, 70}, {3, 5, 3, 3}, {700, 2, 3}, {3, 130, 70}, {1, 9}, {9, 1}, {2, 40, 500}, {5, 9000}, {9000}, {}};

void check_matrices(Device device) {
  for (const Shape& shape : k_matrices) {
    check_steps({.epsilon1 = 1e-6}, shape, float64, device, 3);
    check_steps({.epsilon1 = 1e-6, .momentum = 0.5}, shape, float32, device, 3);
  }
}

}  // namespace

TEST_CASE("Adafactor follows its formula over fifty steps", "[update]") {
  for (const Shape& shape : {Shape{6, 5}, Shape{2, 3, 4}, Shape{7}}) {
    for (const bool told : {false, true}) {
      const Adafactor rule{
          .beta2_decay = -0.6,
          .epsilon1 = 1e-9,
          .epsilon2 = 1e-2,
          .clip_threshold = 0.8,
          .momentum = told ? 0.9 : 0,
          .relative_step = !told,
          .scale_parameter = !told};
      check_steps(rule, shape, float64, cpu(), 50);
    }
  }
}

TEST_CASE("Adafactor takes matrices of every shape", "[update]") {
  check_matrices(cpu());
}
TEST_CASE("Adafactor on a GPU takes matrices of every shape", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_matrices(gpu());
}

namespace {

void check_small_gradients(Device device) {
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    CAPTURE(dtype);
    const double least = dtype == float64 ? 0x1p-52 : dtype == float32 ? 0x1p-23 : dtype == float16 ? 0x1p-10 : 0x1p-7;
    // Of gradients so small that the least counts: u = g / least.
    const ArrayOptions there{.dtype = dtype, .device = device};
    const NDArray weight = full({4}, 2, there), grad = full({4}, least / 4, there);
    const Adafactor rule{.relative_step = false, .scale_parameter = false};
    optimizer_update(rule, {&weight, 1}, {&grad, 1}, states_of(rule, weight), {.learning_rate = 1, .steps = {1}});
    CHECK(weight.to_vector<double>() == std::vector<double>(4, 2 - 0.25));
  }
  // A weight of zeros still goes steps of epsilon2.
  const NDArray weight = zeros({2, 2}, {.device = device}), grad = ones({2, 2}, {.device = device});
  const Adafactor rule{.epsilon2 = 0.125};
  optimizer_update(rule, {&weight, 1}, {&grad, 1}, states_of(rule, weight), {.learning_rate = 0.5, .steps = {1}});
  CHECK(test::differences(weight, full({2, 2}, -0.0625)) == "");
}

// What is no number comes through, and stays in its row and column but for the lengths of all.
void check_not_numbers(Device device) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const NDArray weight = ones({2, 2}, {.device = device}), grad = array<float>({1, nan, 1, 1}, {2, 2}).to(device);
  const Adafactor rule{};
  const Lists states = states_of(rule, weight);
  optimizer_update(rule, {&weight, 1}, {&grad, 1}, states, {.learning_rate = 0.5, .steps = {1}});
  CHECK(std::isnan(weight.to_vector<float>()[1]));
  CHECK(std::isnan(states[0][0].to_vector<float>()[0]));
  CHECK(states[0][0].to_vector<float>()[1] == 1);
  CHECK(states[1][0].to_vector<float>()[0] == 1);
}

void check_nothing(Device device) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0}, Shape{2, 0, 3}}) {
    const NDArray weight = zeros(shape, {.device = device});
    const Adafactor rule{.momentum = 0.5};
    CHECK_NOTHROW(optimizer_update(rule, {&weight, 1}, {&weight, 1}, states_of(rule, weight), {.steps = {1}}));
  }
}

}  // namespace

TEST_CASE("Adafactor's epsilons are of the weight's type, and its steps never nothing", "[update]") {
  check_small_gradients(cpu());
}
TEST_CASE("Adafactor with gradients that are no numbers, and with nothing", "[update][special]") {
  check_not_numbers(cpu());
  check_nothing(cpu());
}
TEST_CASE("Adafactor on a GPU with small gradients, such as are no numbers, and none", "[update][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_small_gradients(gpu());
  check_not_numbers(gpu());
  check_nothing(gpu());
}

TEST_CASE("Adafactor's states have shapes of their own", "[update]") {
  const Adafactor rule{.momentum = 0.5};
  CHECK(rule.states() == std::vector<std::string>{"variance", "column_variance", "momentum"});
  CHECK(rule.state_shape(0, {2, 3, 4}) == Shape{2, 3});
  CHECK(rule.state_shape(1, {2, 3, 4}) == Shape{2, 4});
  CHECK(rule.state_shape(2, {2, 3, 4}) == Shape{2, 3, 4});
  CHECK(rule.state_shape(0, {5}) == Shape{5});
  CHECK(rule.state_shape(1, {5}) == Shape{0});
  const NDArray weight = zeros({2, 3}), grad = zeros({2, 3});
  Lists states = states_of(rule, weight);
  std::swap(states[0], states[1]);
  CHECK_THROWS_WITH(
      optimizer_update(rule, {&weight, 1}, {&grad, 1}, states, {.steps = {1}}),
      contains("adafactor_update: state 0 has shape (3,), its weight (2, 3), of which state 'variance' has (2,)"));
  CHECK_THROWS_WITH(
      optimizer_update(rule, {&weight, 1}, {&grad, 1}, states_of(rule, weight), {}), contains("0 steps for 1 weights"));
}

TEST_CASE("Adafactor's small steps add up in masters, and who writes the weight is right", "[update]") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(dtype);
    for (const Shape& shape : {Shape{700}, Shape{20, 35}}) {
      const NDArray weight = ones(shape, {.dtype = dtype}), grad = ones(shape, {.dtype = dtype}), master = zeros(shape);
      const Adafactor rule{.relative_step = false, .scale_parameter = false};
      const Lists states = states_of(rule, weight);
      const auto step = [&] {
        optimizer_update(
            rule, {&weight, 1}, {&grad, 1}, states, {.learning_rate = 0x1p-12, .steps = {1}, .masters = {master}});
      };
      for (int i = 0; i < 64; ++i)
        step();
      CHECK(test::differences(master, full(shape, 1 - 0x1p-6)) == "");
      CHECK(weight.to_vector<float>() == full(shape, 1 - 0x1p-6).to_vector<float>());
      fill(weight, 2);
      step();
      CHECK(test::differences(master, full(shape, 2 - 0x1p-12), {0, 1e-7}) == "");
    }
  }
}

TEST_CASE("A step of Adafactor that a guard leaves out changes nothing", "[update]") {
  const Adafactor rule{.momentum = 0.5};
  const NDArray weight = ones({3, 4}), grad = full({3, 4}, std::numeric_limits<float>::infinity());
  const Lists states = states_of(rule, weight);
  const NDArray guard = gradient_guard(std::vector<NDArray>{grad}, {.skip_non_finite = true});
  optimizer_update(rule, {&weight, 1}, {&grad, 1}, states, {.steps = {1}, .guard = guard});
  CHECK(weight.to_vector<float>() == std::vector<float>(12, 1));
  for (const auto& list : states)
    CHECK(list[0].to_vector<float>() == zeros_like(list[0]).to_vector<float>());
}

}  // namespace sluice
