// SoftmaxCrossEntropyLoss of labels that do not count, smoothed, of weighted classes: what a sample has, and the mean.
#include <cmath>
#include <optional>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using sluice::gluon::loss::SoftmaxCrossEntropyOptions;

namespace {

using Values = std::vector<double>;

NDArray padded_labels(Device device = cpu()) {
  return array<int>({2, -100, 0, -100, -100, 1}, {2, 3}).to(device);
}
NDArray weights_of_classes(Device device = cpu()) {
  return array<float>({0.5, 2, 1, 3}).to(device);
}

// One value a label, without a mean.
NDArray each_of(const NDArray& x, const NDArray& labels, const SoftmaxCrossEntropyOptions& how) {
  return softmax_cross_entropy(
      x,
      labels,
      {.axis = how.axis, .ignored = how.ignored, .smoothing = how.smoothing, .class_weights = how.class_weights});
}

double total(const NDArray& x) {
  return sum(x.astype(float64)).item<double>();
}

}  // namespace

TEST_CASE("With an ignored label the mean of a batch is over the labels that count", "[gluon][loss]") {
  const NDArray x = random_array({2, 3, 4}, 1, -3, 3, float64), labels = padded_labels();
  for (const double smoothing : {0.0, 0.1}) {
    const SoftmaxCrossEntropyOptions how{.ignored = -100, .smoothing = smoothing};
    const NDArray each = each_of(x, labels, how), losses = SoftmaxCrossEntropyLoss(how)(x, labels);
    CHECK(losses.shape() == Shape{2});
    CHECK(mean(losses).item<double>() == Approx(total(each) / 3).epsilon(1e-12));
    // A sample: its sum, by its 3 labels, times all 6 by the 3 that count.
    CHECK(differences(losses, sum(each, {1}) / 3 * 2) == "");
    // One label a sample: those that count are larger by 4 / 3.
    const NDArray rows = x.reshape({6, 4}).slice(0, 2, 6), some = array<int>({0, -100, 3, 1});
    CHECK(differences(SoftmaxCrossEntropyLoss(how)(rows, some), each_of(rows, some, how) * (4. / 3)) == "");
  }
}

TEST_CASE("Weights of samples multiply losses and leave the number of labels that count", "[gluon][loss]") {
  const NDArray x = random_array({2, 3, 4}, 1, -3, 3, float64), labels = padded_labels();
  const SoftmaxCrossEntropyOptions how{.ignored = -100};
  const SoftmaxCrossEntropyLoss loss(how);
  const NDArray each = each_of(x, labels, how), by = array<double>({3, 0.5}),
                places = array<double>({3, 1, 0, 2, 1, 5}, {2, 3});
  CHECK(differences(loss({x, labels, by})[0], loss(x, labels) * by) == "");
  CHECK(mean(loss({x, labels, places})[0]).item<double>() == Approx(total(each * places) / 3).epsilon(1e-12));
  CHECK(differences(SoftmaxCrossEntropyLoss({.weight = 4, .ignored = -100})(x, labels), loss(x, labels) * 4) == "");
}

TEST_CASE("Weights of classes multiply losses; the mean divides by them where it is asked to", "[gluon][loss]") {
  const NDArray x = random_array({2, 3, 4}, 1, -3, 3, float64), labels = padded_labels();
  const NDArray full_labels = array<int>({2, 3, 0, 1, 1, 1}, {2, 3});
  const SoftmaxCrossEntropyOptions plain{.class_weights = weights_of_classes()};
  CHECK(differences(SoftmaxCrossEntropyLoss(plain)(x, full_labels), mean(each_of(x, full_labels, plain), {1})) == "");
  for (const double smoothing : {0.0, 0.3}) {
    const SoftmaxCrossEntropyOptions how{
        .ignored = -100, .smoothing = smoothing, .class_weights = weights_of_classes()};
    SoftmaxCrossEntropyOptions by_weights = how;
    by_weights.mean_by_weights = true;
    const double whole = total(each_of(x, labels, how));
    CHECK(mean(SoftmaxCrossEntropyLoss(how)(x, labels)).item<double>() == Approx(whole / 3).epsilon(1e-12));
    // Labels 2, 0 and 1 have 1, 0.5 and 2.
    CHECK(mean(SoftmaxCrossEntropyLoss(by_weights)(x, labels)).item<double>() == Approx(whole / 3.5).epsilon(1e-12));
    by_weights.ignored.reset();
    CHECK(
        mean(SoftmaxCrossEntropyLoss(by_weights)(x, full_labels)).item<double>() ==
        Approx(total(each_of(x, full_labels, by_weights)) / (1 + 3 + 0.5 + 2 + 2 + 2)).epsilon(1e-12));
  }
  // Of log-probabilities too.
  SoftmaxCrossEntropyOptions logs{.from_logits = true, .ignored = -100, .class_weights = weights_of_classes()};
  const NDArray found = SoftmaxCrossEntropyLoss(logs)(log_softmax(x), labels);
  logs.from_logits = false;
  CHECK(differences(found, SoftmaxCrossEntropyLoss(logs)(x, labels)) == "");
}

TEST_CASE("Where no label counts losses and gradients are 0", "[gluon][loss]") {
  for (const bool by_weights : {false, true}) {
    SoftmaxCrossEntropyOptions how{.ignored = 9, .smoothing = 0.1, .mean_by_weights = by_weights};
    if (by_weights)
      how.class_weights = weights_of_classes();
    NDArray x = random_array({3, 4}, 1);
    x.attach_grad();
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = SoftmaxCrossEntropyLoss(how)(x, full({3}, 9, {.dtype = int32}));
    }
    losses.backward();
    CHECK(values(losses) == std::vector<float>(3, 0));
    CHECK(values(x.grad()) == std::vector<float>(12, 0));
  }
  CHECK(SoftmaxCrossEntropyLoss({.ignored = 9})(zeros({0, 4}), zeros({0}, {.dtype = int32})).shape() == Shape{0});
}

TEST_CASE("The share of labels that count is not rounded to a half type", "[gluon][loss]") {
  for (const DType dtype : {float16, bfloat16}) {
    const NDArray x = random_array({700, 4}, 1, -3, 3, dtype);
    NDArray labels = random_array({700}, 2, 0, 3, int32);
    labels.slice(0, 0, 3).assign(-100);
    const SoftmaxCrossEntropyOptions how{.ignored = -100};
    const NDArray found = SoftmaxCrossEntropyLoss(how)(x, labels);
    CHECK(found.dtype() == dtype);
    const NDArray want = (each_of(x, labels, how).astype(float32) / static_cast<float>(697. / 700)).astype(dtype);
    CHECK(differences(found.astype(float32), want.astype(float32), {dtype == float16 ? 1e-3 : 8e-3, 0}) == "");
  }
}

TEST_CASE("Options of losses of classes that do not go together are refused", "[gluon][loss]") {
  const auto refuses = [](const SoftmaxCrossEntropyOptions& how, const char* says) {
    CHECK_THROWS_AS(SoftmaxCrossEntropyLoss(how), ValueError);
    CHECK_THROWS_WITH(SoftmaxCrossEntropyLoss(how), contains(says));
  };
  refuses({.smoothing = 1}, "smoothing is 1");
  refuses({.smoothing = -0.5}, "smoothing is -0.5");
  refuses({.smoothing = NAN}, "smoothing is");
  refuses({.sparse_label = false, .ignored = 1}, "sparse_label");
  refuses({.sparse_label = false, .smoothing = 0.1}, "sparse_label");
  refuses({.sparse_label = false, .class_weights = weights_of_classes()}, "sparse_label");
  refuses({.from_logits = true, .smoothing = 0.1}, "from_logits");
  refuses({.mean_by_weights = true}, "class_weights");
  const NDArray bad = SoftmaxCrossEntropyLoss({.ignored = -100})(zeros({2, 4}), array<int>({-100, 4}));
  CHECK_THROWS_AS(bad.wait_to_read(), IndexError);
}

TEST_CASE("A loss says which of its options are not as usual", "[gluon][loss]") {
  const SoftmaxCrossEntropyLoss loss({.ignored = -100, .smoothing = 0.1, .class_weights = weights_of_classes()});
  const auto value_of = [&](const std::string& name) -> std::string {
    for (const NamedValue& option : loss.options()) {
      if (option.name == name)
        return to_string(option.value);
    }
    return "";
  };
  CHECK(value_of("ignored") == "-100");
  CHECK(value_of("smoothing") == "0.1");
  CHECK(value_of("class_weights") == "(4,)");
}

namespace {

// Losses and a weight after steps with batches of several sizes, by hand, with a hybridized loss or as one graph.
enum class Way { by_hand, hybrid, graph };

std::vector<std::vector<float>> trained(const SoftmaxCrossEntropyOptions& how, Way way, Device device) {
  random::seed(3);
  gluon::nn::Sequential net;
  net.add(gluon::nn::Dense(4, {.flatten = false}));
  net.initialize(gluon::init::Xavier(), device);
  Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.25}));
  SoftmaxCrossEntropyLoss loss(how);
  if (way == Way::hybrid) {
    net.hybridize();
    loss.hybridize();
  }
  gluon::TrainStep step(net, loss, trainer);
  std::vector<std::vector<float>> trail;
  for (const std::int64_t batch : {4, 4, 2, 4, 1}) {
    const NDArray x = random_array({batch, 6, 3}, 7).to(device);
    NDArray labels = random_array({batch, 6}, 8, 0, 3, int64).to(device);
    labels = where(random_array({batch, 6}, 9, 0, 1).to(device) < 0.3, -100, labels);
    NDArray losses;
    if (way == Way::graph) {
      losses = step(x, labels).losses;
    } else {
      {
        const autograd::RecordScope record;
        losses = loss(net(x), labels);
      }
      losses.backward();
      trainer.step(batch);
    }
    trail.push_back(values(losses));
  }
  trail.push_back(values(net.collect_params()["0.weight"].data()));
  return trail;
}

void check_ways(Device device) {
  for (const SoftmaxCrossEntropyOptions& how :
       {SoftmaxCrossEntropyOptions{.ignored = -100},
        {.ignored = -100, .smoothing = 0.1},
        {.ignored = -100, .class_weights = weights_of_classes(), .mean_by_weights = true},
        {.ignored = -100, .smoothing = 0.2, .class_weights = weights_of_classes()}}) {
    CAPTURE(device, how.smoothing, how.mean_by_weights);
    const auto by_hand = trained(how, Way::by_hand, device);
    CHECK(trained(how, Way::hybrid, device) == by_hand);
    CHECK(trained(how, Way::graph, device) == by_hand);
  }
}

}  // namespace

TEST_CASE("Losses with options train hybridized and as one graph to the bit as by hand", "[gluon][loss][hybrid]") {
  check_ways(cpu());
}

TEST_CASE("Losses with options train on a GPU as one graph to the bit as by hand", "[gluon][loss][hybrid][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_ways(gpu());
}
