// Smoothed labels and weighted classes, beside plain loops.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// PyTorch's cross_entropy(reduction="none") of rows, in double.
std::vector<double> by_loops(
    const std::vector<double>& x,
    const std::vector<int>& labels,
    const std::vector<double>& weights,
    double smoothing,
    std::optional<int> ignored) {
  const std::size_t classes = weights.size();
  std::vector<double> losses;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const double* logits = x.data() + row * classes;
    double sum = 0, total = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(logits[c]);
    for (std::size_t c = 0; c < classes; ++c)
      total += weights[c] * (std::log(sum) - logits[c]) / static_cast<double>(classes);
    if (labels[row] == ignored) {
      losses.push_back(0);
      continue;
    }
    const auto label = static_cast<std::size_t>(labels[row]);
    losses.push_back((1 - smoothing) * weights[label] * (std::log(sum) - logits[label]) + smoothing * total);
  }
  return losses;
}

void check_on(Device device) {
  const std::vector<int> labels = {2, -100, 0, 4, 3, 0};
  const std::vector<double> weighing = {1, 0.25, 2, 3, 0};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const NDArray x = random_array({6, 5}, 3, -4, 4, dtype), given = array(labels).to(device);
    const NDArray weights = array(weighing).astype(float32).to(device);
    for (const bool weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.1, 0.75}) {
        CAPTURE(device, dtype, weighted, smoothing);
        CrossEntropyOptions options{.ignored = -100, .smoothing = smoothing};
        if (weighted)
          options.class_weights = weights;
        const std::vector<double> ones(5, 1);
        const NDArray want =
            array(by_loops(x.to_vector<double>(), labels, weighted ? weighing : ones, smoothing, -100));
        const NDArray got = softmax_cross_entropy(x.to(device), given, options);
        CHECK(difference(got.to(cpu()), want.astype(dtype)) == "");
        options.axis = 0;
        CHECK(difference(softmax_cross_entropy(x.T().to(device), given, options).to(cpu()), want.astype(dtype)) == "");
        if (weighted && smoothing == 0) {
          const NDArray logs = log_softmax(x.to(device));
          const NDArray likelihood = negative_log_likelihood(logs, given, {.ignored = -100, .class_weights = weights});
          CHECK(difference(likelihood.to(cpu()), want.astype(dtype)) == "");
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("Smoothed cross entropy of weighted classes is what plain loops give", "[weighted]") {
  check_on(cpu());
}

TEST_CASE("Smoothed cross entropy of weighted classes on a GPU is what plain loops give", "[weighted][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_on(gpu());
}

TEST_CASE("Smoothing of rows that do not count leaves a gradient of 0, whatever their logits are", "[weighted]") {
  NDArray x = array<float>({1, 2, 3, NAN, INFINITY, 0}, {2, 3});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = softmax_cross_entropy(x, array<int>({0, -1}), {.ignored = -1, .smoothing = 0.3});
  }
  y.backward();
  CHECK(y.to_vector<float>()[1] == 0);
  const std::vector<float> grad = x.grad().to_vector<float>();
  CHECK(std::vector<float>(grad.begin() + 3, grad.end()) == std::vector<float>{0, 0, 0});
  CHECK(grad[0] != 0);
}

TEST_CASE("Without smoothing and weights the options are those of the plain call, to the last bit", "[weighted]") {
  const NDArray x = random_array({6, 5}, 3, -4, 4), labels = array<int>({2, 1, 0, 4, 3, 0});
  CHECK(
      differences(softmax_cross_entropy(x, labels, CrossEntropyOptions{}), softmax_cross_entropy(x, labels), {0, 0}) ==
      "");
  CHECK(
      differences(
          negative_log_likelihood(x, labels, LikelihoodOptions{}), negative_log_likelihood(x, labels), {0, 0}) == "");
}

TEST_CASE("Smoothing keeps its digits under a large common offset", "[weighted]") {
  const NDArray x = array<float>({10000, 10001, 10002}, {1, 3}), labels = array<int>({2});
  const double want = softmax_cross_entropy(x.astype(float64), labels, {.smoothing = 0.2}).item<double>();
  CHECK(softmax_cross_entropy(x, labels, {.smoothing = 0.2}).item<double>() == Approx(want).epsilon(1e-4));
}

TEST_CASE("Smoothed and weighted losses refuse what does not fit, by name", "[weighted]") {
  const NDArray x = zeros({2, 3}), labels = zeros({2}, {.dtype = int32});
  for (const double wrong : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_AS(softmax_cross_entropy(x, labels, {.smoothing = wrong}), ValueError);
  CHECK_THROWS_WITH(
      softmax_cross_entropy(x, labels, {.smoothing = 1.5}), contains("weighted_cross_entropy") && contains("1.5"));
  CHECK_THROWS_AS(softmax_cross_entropy(x, labels, {.class_weights = ones({2})}), ShapeError);
  CHECK_THROWS_AS(softmax_cross_entropy(x, labels, {.class_weights = ones({1, 3})}), ShapeError);
  CHECK_THROWS_AS(softmax_cross_entropy(x, labels, {.class_weights = ones({3}, {.dtype = int32})}), DTypeError);
  CHECK_THROWS_AS(softmax_cross_entropy(x, labels, {.axis = 2, .smoothing = 0.5}), IndexError);
  CHECK_THROWS_AS(softmax_cross_entropy(x, zeros({3}, {.dtype = int32}), {.smoothing = 0.5}), ShapeError);
  CHECK_THROWS_AS(softmax_cross_entropy(x, zeros({2}), {.smoothing = 0.5}), DTypeError);
  CHECK_THROWS_WITH(
      negative_log_likelihood(x, labels, {.class_weights = ones({4})}),
      contains("weighted_likelihood") && contains("(4"));
  CHECK_THROWS_AS(
      softmax_cross_entropy(x, array<int>({0, 3}), {.smoothing = 0.5, .class_weights = ones({3})}).wait_to_read(),
      IndexError);
  CHECK_THROWS_AS(call("weighted_cross_entropy", {x}), ValueError);
  CHECK_THROWS_AS(call("weighted_cross_entropy", {x, labels, ones({3}), ones({3})}), ValueError);
}
