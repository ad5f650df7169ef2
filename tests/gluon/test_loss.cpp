#include <cmath>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// -log(softmax(row))[label] by a plain loop.
std::vector<float> cross_entropy(const std::vector<float>& x, const std::vector<int>& labels, std::size_t classes) {
  std::vector<float> losses;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(static_cast<double>(x[n * classes + c]));
    losses.push_back(
        static_cast<float>(std::log(sum) - static_cast<double>(x[n * classes + static_cast<std::size_t>(labels[n])])));
  }
  return losses;
}

}  // namespace

TEST_CASE("softmax cross entropy gives one value per sample", "[gluon][loss]") {
  const std::vector<float> x = pattern(15);
  const std::vector<int> labels = {4, 0, 2};
  const std::vector<float> expected = cross_entropy(x, labels, 5);
  const NDArray predictions = array(x, {3, 5}), classes = array<std::int32_t>({4, 0, 2});
  check_near(values(SoftmaxCrossEntropyLoss()(predictions, classes)), expected);
  check_near(values(SoftmaxCrossEntropyLoss({.from_logits = true})(log_softmax(predictions), classes)), expected);
  const NDArray probabilities = one_hot(classes, 5);
  check_near(values(SoftmaxCrossEntropyLoss({.sparse_label = false})(predictions, probabilities)), expected);
  std::vector<float> halved = expected;
  for (float& loss : halved)
    loss /= 2;
  check_near(values(SoftmaxCrossEntropyLoss({.weight = 0.5})(predictions, classes)), halved);
  check_near(values(SoftmaxCrossEntropyLoss({.axis = 0})(predictions.T(), classes)), expected);
}

TEST_CASE("softmax cross entropy averages over the other axes", "[gluon][loss]") {
  const std::vector<float> x = pattern(24);
  const NDArray losses =
      SoftmaxCrossEntropyLoss()(array(x, {2, 3, 4}), array<std::int32_t>({0, 1, 2, 3, 2, 1}, {2, 3}));
  const std::vector<float> each = cross_entropy(x, {0, 1, 2, 3, 2, 1}, 4);
  check_near(values(losses), {(each[0] + each[1] + each[2]) / 3, (each[3] + each[4] + each[5]) / 3});
}

TEST_CASE("losses refuse labels that do not fit", "[gluon][loss]") {
  CHECK_THROWS_AS(SoftmaxCrossEntropyLoss()(zeros({3, 5}), zeros({2}, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(SoftmaxCrossEntropyLoss({.sparse_label = false})(zeros({3, 5}), zeros({3, 4})), ShapeError);
  CHECK_THROWS_AS(L2Loss()(zeros({3, 5}), zeros({3})), ShapeError);
  const NDArray bad = SoftmaxCrossEntropyLoss()(zeros({1, 5}), array<std::int32_t>({5}));
  CHECK_THROWS_AS(bad.wait_to_read(), IndexError);
}

TEST_CASE("the L2 loss takes its weight, and its gradient does", "[gluon][loss]") {
  NDArray x = array<float>({1, 2, 3, 4}, {2, 2});
  x.attach_grad();
  NDArray losses;
  {
    autograd::RecordScope record;
    losses = L2Loss({.weight = 3})(x, array<float>({0, 0, 3, 2}));
  }
  check_near(values(losses), {3 * (1 + 4) / 4.0f, 3 * 4 / 4.0f});
  losses.backward();
  check_near(values(x.grad()), {1.5, 3, 0, 3});
}

TEST_CASE("L2 loss is half the mean square, with its gradient", "[gluon][loss]") {
  NDArray x = array<float>({1, 2, 3, 4}, {2, 2});
  x.attach_grad();
  NDArray losses;
  {
    autograd::RecordScope record;
    losses = L2Loss()(x, array<float>({0, 0, 3, 2}));
  }
  check_near(values(losses), {(1 + 4) / 4.0f, 4 / 4.0f});
  losses.backward();
  check_near(values(x.grad()), {0.5, 1, 0, 1});
}
