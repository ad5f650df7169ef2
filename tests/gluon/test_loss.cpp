#include <cmath>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using sluice::gluon::loss::CTCLoss;
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

TEST_CASE("CTCLoss is ctc_loss of batches in either layout, with padding or lengths", "[loss]") {
  const NDArray x = random_array({2, 5, 4}, 1), steps = x.transpose({1, 0, 2});
  const NDArray labels = array(std::vector<std::int64_t>{0, 2, 1, -1}, {2, 2});
  const NDArray want = ctc_loss(steps, labels, {.blank = BlankLabel::last});
  CHECK(differences(CTCLoss()(x, labels), want, {0, 0}) == "");
  const CTCLoss turned({.layout = "TNC", .label_layout = "TN", .weight = 2});
  CHECK(differences(turned(steps, labels.T()), want * 2, {0, 0}) == "");
  const NDArray lengths = array(std::vector<std::int64_t>{5, 3}, {2}),
                some = array(std::vector<std::int64_t>{1, 2}, {2});
  const CtcLossOptions both{.data_lengths = lengths, .label_lengths = some, .blank = BlankLabel::first};
  const NDArray other = array(std::vector<std::int64_t>{1, 9, 1, 3}, {2, 2});
  const CTCLoss first({.blank = BlankLabel::first});
  CHECK(differences(first({x, other, lengths, some})[0], ctc_loss(steps, other, both), {0, 0}) == "");
  const CtcLossOptions of_data{.data_lengths = lengths, .blank = BlankLabel::last};
  CHECK(differences(CTCLoss()({x, labels, lengths})[0], ctc_loss(steps, labels, of_data), {0, 0}) == "");
  CHECK_THROWS_AS(CTCLoss({.layout = "NCT"}), ValueError);
  CHECK_THROWS_AS(CTCLoss({.label_layout = "N"}), ValueError);
  CHECK_THROWS_AS(CTCLoss()({x}), ValueError);
  CHECK_THROWS_AS(CTCLoss()(x[0], labels), ShapeError);
  CHECK_THROWS_AS(CTCLoss()(x, labels[0]), ShapeError);
}

TEST_CASE("Steps down the gradient of CTCLoss spell the labels", "[loss]") {
  NDArray x = zeros({1, 6, 4});
  const NDArray labels = array(std::vector<std::int64_t>{0, 0, 2}, {1, 3});
  const CTCLoss cost;
  const double at_first = cost(x, labels).item<double>();
  for (int step = 0; step < 60; ++step) {
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = cost(x, labels);
    }
    y.backward();
    x = (x - x.grad()).detach();
  }
  CHECK(cost(x, labels).item<double>() < 0.1);
  CHECK(at_first > 1);
}

TEST_CASE("CTCLoss trains as one graph to the bit as by hand, for batches of other sizes too", "[loss]") {
  const auto run = [](bool as_graph) {
    random::seed(3);
    gluon::nn::Sequential net;
    net.add(gluon::nn::Dense(5, {.flatten = false}));
    net.initialize(gluon::init::Xavier());
    gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.25}));
    const CTCLoss cost;
    gluon::TrainStep step(net, cost, trainer);
    std::vector<std::vector<float>> trail;
    for (const std::int64_t batch : {4, 4, 2, 4, 1}) {
      const NDArray x = random_array({batch, 6, 3}, 7), labels = random_array({batch, 2}, 8, 0, 3, int64);
      NDArray losses;
      if (as_graph) {
        losses = step(x, labels).losses;
      } else {
        {
          const autograd::RecordScope record;
          losses = cost(net(x), labels);
        }
        losses.backward();
        trainer.step(batch);
      }
      trail.push_back(values(losses));
    }
    trail.push_back(values(net.collect_params()["0.weight"].data()));
    return trail;
  };
  CHECK(run(true) == run(false));
}
