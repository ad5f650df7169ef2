// negative_log_likelihood is -pick, for labels.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/softmax/kernels.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice {
namespace {

using test::contains;

// Elements with their signs; those of all NaN are one.
std::vector<double> signed_values(const NDArray& x) {
  std::vector<double> values = x.to(cpu()).astype(float64).to_vector<double>();
  for (double& value : values)
    value = std::isnan(value) ? 1e301 : value == 0 && std::signbit(value) ? 1e302 : value;
  return values;
}

struct Results {
  NDArray loss, grad;
};

template <class F>
Results run(const F& f, const NDArray& x, const NDArray& head) {
  NDArray input = x.copy();
  input.attach_grad();
  NDArray loss;
  {
    const autograd::RecordScope record;
    loss = f(input);
  }
  loss.backward(head);
  return {loss, input.grad()};
}

void check_like_pick(const NDArray& x, const NDArray& labels, int axis, const NDArray& head) {
  const auto likelihood = [&](const NDArray& in) { return negative_log_likelihood(in, labels, axis); };
  const auto picked = [&](const NDArray& in) { return negative(pick(in, labels, axis)); };
  const Results got = run(likelihood, x, head), want = run(picked, x, head);
  CHECK(got.loss.dtype() == x.dtype());
  CHECK(got.loss.shape() == want.loss.shape());
  CHECK(signed_values(got.loss) == signed_values(want.loss));
  CHECK(got.grad.shape() == x.shape());
  CHECK(signed_values(got.grad) == signed_values(want.grad));
}

void check_on(Device device) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const NDArray special =
      array<double>({0.0, -0.0, inf, -inf, nan, -1.5, 65504, 1e-8, 3, -inf, 0.0, 7}, {2, 3, 2}).to(device);
  const NDArray heads = array<double>({-0.0, inf, nan, -2}, {2, 2}).to(device);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(dtype, device);
    const NDArray x = special.astype(dtype), head = heads.astype(dtype);
    for (const std::vector<int>& chosen : {std::vector<int>{0, 1, 2, 0}, {2, 2, 0, 1}, {1, 0, 1, 2}}) {
      const NDArray labels = array<int>(chosen, {2, 2}).to(device);
      check_like_pick(x, labels, 1, head);
      check_like_pick(x.swapaxes(1, 2), labels.astype(uint8), -1, head);
      check_like_pick(x, labels.astype(int64).T(), 1, head.T());
    }
    // One gradient for all, rows in vectors and beside them, an offset, one past a block's threads, none at all.
    const NDArray one = ones({1}, {.device = device}).astype(dtype).broadcast_to({5});
    for (const std::int64_t classes : {1, 8, 9, 1025}) {
      const NDArray wide = test::random_array({6, classes}, 4, -1, 1, dtype, device);
      const NDArray labels = array<std::int64_t>({0, classes - 1, 0, classes / 2, classes - 1}).to(device);
      check_like_pick(wide.slice(0, 1, 6), labels, 1, one);
    }
    const NDArray none = zeros({0, 4}, {.dtype = dtype, .device = device});
    check_like_pick(
        none, zeros({0}, {.dtype = int32, .device = device}), 1, zeros({0}, {.dtype = dtype, .device = device}));
  }
}

TEST_CASE("negative_log_likelihood is -pick to the last bit, and so is its gradient", "[likelihood]") {
  check_on(cpu());
}

TEST_CASE("negative_log_likelihood on a GPU is -pick to the last bit, and so is its gradient", "[likelihood][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_on(gpu());
}

void check_refusals(Device device) {
  const NDArray x = ones({2, 3}, {.device = device});
  for (const int label : {3, -1, -3, std::numeric_limits<int>::min()}) {
    CAPTURE(label, device);
    const NDArray labels = array<int>({0, label}).to(device);
    const NDArray loss = negative_log_likelihood(x, labels);
    CHECK_THROWS_AS(loss.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(loss.wait_to_read(), contains("negative_log_likelihood") && contains(std::to_string(label)));
    // Of the gradient alone, as a program has it that nobody asks for the loss.
    const NDArray grad = invoke_one(
        *find_operator("negative_log_likelihood_backward"),
        {labels, ones({2}, {.device = device}), shape_only({.shape = {2, 3}, .device = device})},
        Attributes::of(detail::LikelihoodAttributes{1}),
        {});
    CHECK_THROWS_AS(grad.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(
        grad.wait_to_read(), contains("negative_log_likelihood_backward") && contains(std::to_string(label)));
  }
  // pick counts from the back, labels do not.
  CHECK(pick(x, array<int>({0, -3}).to(device)).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(negative_log_likelihood(x, array<int>({0, 2}).to(device)).to_vector<float>() == std::vector<float>{-1, -1});
}

TEST_CASE(
    "A label that is no class is refused by negative_log_likelihood's name, forward and backward", "[likelihood]") {
  check_refusals(cpu());
}

TEST_CASE("On a GPU a label that is no class is refused by negative_log_likelihood's name", "[likelihood][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_refusals(gpu());
}

}  // namespace
}  // namespace sluice
