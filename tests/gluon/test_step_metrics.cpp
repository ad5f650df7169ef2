// Metrics that training steps add up themselves: to the last bit those of update() behind them.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/estimated.h"
#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
namespace metric = gluon::metric;
using Metrics = std::vector<std::shared_ptr<metric::Metric>>;

namespace {

constexpr std::int64_t k_classes = 10;

/// All that a plan takes in for classes, and two that it does not.
Metrics of_classes() {
  return {
      std::make_shared<metric::Loss>(),
      std::make_shared<metric::Accuracy>(),
      std::make_shared<metric::TopKAccuracy>(metric::TopKAccuracyOptions{.top_k = 3}),
      std::make_shared<metric::CrossEntropy>(metric::CrossEntropyOptions{.from_logits = true}),
      std::make_shared<metric::Perplexity>(metric::CrossEntropyOptions{.ignore_label = 3, .from_logits = true}),
      std::make_shared<metric::ConfusionMatrix>(),
      std::make_shared<metric::Custom>("first", [](const NDArray& labels, const NDArray& predictions) {
        return array<float>({predictions.slice(0, 0, 1).to_vector<float>()[0] + static_cast<float>(labels.size())});
      })};
}

Metrics of_numbers() {
  return {
      std::make_shared<metric::Loss>("mean"),
      std::make_shared<metric::MAE>(),
      std::make_shared<metric::MSE>(),
      std::make_shared<metric::RMSE>(),
      std::make_shared<metric::PearsonCorrelation>()};
}

struct Steps {
  Engine engine{{.workers = 2, .seed = 3}};
  EngineScope here{engine};
  gluon::nn::Sequential net = sample_network("mlp");
  std::unique_ptr<gluon::loss::Loss> loss;
  Trainer trainer;
  gluon::TrainStep step;

  explicit Steps(bool classes, Device device)
      : loss(
            classes ? std::unique_ptr<gluon::loss::Loss>(std::make_unique<gluon::loss::SoftmaxCrossEntropyLoss>())
                    : std::make_unique<L2Loss>()),
        trainer(prepared(net, device), gluon::optimizer::SGD({.learning_rate = 0.05})),
        step(net, *loss, trainer) {}
  static gluon::ParameterDict prepared(gluon::nn::Sequential& net, Device device) {
    net.initialize(gluon::init::Xavier(), device);
    net(zeros({1, 1, 12, 12}, {.device = device}));
    return net.collect_params();
  }
  static std::pair<NDArray, NDArray> batch(bool classes, std::int64_t n, int seed, Device device) {
    const auto [x, y] = synthetic_batch(n, 12, seed, device);
    if (classes)
      return {x, y};
    return {x, (y.astype(float32).reshape({n, 1}) + pattern_array({k_classes}).to(device)) * 0.1};
  }
};

/// Figures and states after each of some steps of several sizes, with a reset and a way back to a state between.
std::vector<std::vector<double>> trail_of(
    Steps& steps,
    const Metrics& metrics,
    bool classes,
    Device device,
    const std::function<void(const NDArray&, const NDArray&)>& take) {
  std::vector<std::vector<double>> trail;
  std::vector<metric::Metric::State> kept;
  int number = 0;
  for (const std::int64_t n : {8, 8, 5, 8, 5, 7}) {
    const auto [x, y] = Steps::batch(classes, n, number, device);
    if (number == 2) {
      for (const auto& metric : metrics)
        kept.push_back(metric->state());
    }
    if (number == 4) {
      for (std::size_t i = 0; i < metrics.size(); ++i)
        metrics[i]->load_state(kept[i]);
    }
    if (number == 5) {
      for (const auto& metric : metrics)
        metric->reset();
      CHECK(std::isnan(metrics[0]->get().second));
    }
    ++number;
    take(x, y);
    for (const auto& metric : metrics) {
      trail.push_back({metric->get().second, static_cast<double>(metric->count())});
      for (const NDArray& sums : metric->state().arrays)
        trail.push_back(sums.astype(float64).to_vector<double>());
    }
  }
  for (const auto& [name, parameter] : steps.net.collect_params())
    trail.push_back(parameter.data().astype(float64).to_vector<double>());
  return trail;
}

void compare_ways(bool classes, Device device) {
  const auto make = [&] { return classes ? of_classes() : of_numbers(); };
  std::vector<std::vector<double>> expected, found;
  {
    Steps steps(classes, device);
    const Metrics metrics = make();
    expected = trail_of(steps, metrics, classes, device, [&](const NDArray& x, const NDArray& y) {
      const gluon::StepResult result = steps.step(x, y);
      for (const auto& metric : metrics) {
        if (const auto of_losses = std::dynamic_pointer_cast<metric::Loss>(metric))
          of_losses->update(result.losses);
        else
          metric->update(y, result.predictions);
      }
    });
  }
  Steps steps(classes, device);
  const Metrics metrics = make();
  steps.step.add_up(metrics);
  found =
      trail_of(steps, metrics, classes, device, [&](const NDArray& x, const NDArray& y) { (void)steps.step(x, y); });
  CHECK(expected == found);
  CHECK(steps.step.traced() == 1);
  steps.step.add_up(metrics);  // the same again is no change
  const auto [x, y] = Steps::batch(classes, 8, 9, device);
  (void)steps.step(x, y);
  CHECK(steps.step.traced() == 1);
  const double before = metrics[0]->get().second;
  steps.step.add_up({});
  (void)steps.step(x, y);
  CHECK(metrics[0]->get().second == before);
}

}  // namespace

TEST_CASE("metrics that steps add up are those of update, to the last bit", "[gluon][train_step]") {
  for (const bool classes : {true, false}) {
    INFO(classes);
    compare_ways(classes, cpu());
  }
}

TEST_CASE("metrics that steps add up on a GPU are those of update there", "[gluon][train_step][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const bool classes : {true, false}) {
    INFO(classes);
    compare_ways(classes, gpu(0));
  }
}

TEST_CASE("metrics of plain operators cost a step on a GPU no task", "[gluon][train_step][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Steps bare(true, gpu(0)), counting(true, gpu(0));
  const auto tasks_of = [](Steps& steps) {
    const EngineScope here(steps.engine);
    const auto [x, y] = Steps::batch(true, 8, 1, gpu(0));
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < 24; ++i) {  // some until graphs are recorded
      const std::uint64_t before = steps.engine.counters().pushed;
      (void)steps.step(x, y);
      steps.engine.wait_all();
      least = std::min(least, steps.engine.counters().pushed - before);
    }
    return least;
  };
  const std::uint64_t alone = tasks_of(bare);
  CHECK(alone > 0);
  counting.step.add_up({std::make_shared<metric::Loss>(), std::make_shared<metric::Accuracy>()});
  CHECK(tasks_of(counting) == alone);
  counting.step.add_up({std::make_shared<metric::ConfusionMatrix>()});  // which a plan does not take in
  CHECK(tasks_of(counting) > alone);
}

TEST_CASE("a step by hand adds up as one of a graph does; a null metric is refused", "[gluon][train_step]") {
  Engine engine({.workers = 2, .seed = 3});
  const EngineScope here(engine);
  gluon::nn::Sequential net = sample_network("mlp");  // whose shapes the first step finds
  net.initialize(gluon::init::Xavier());
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  Trainer trainer(net.collect_params(), gluon::optimizer::SGD());
  gluon::TrainStep step(net, loss, trainer, {.predictions = false});
  const auto mean_loss = std::make_shared<metric::Loss>();
  const auto accuracy = std::make_shared<metric::Accuracy>();
  step.add_up({mean_loss, accuracy});
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const auto [x, y] = synthetic_batch(4, 12, i, cpu());
    for (const float each : step(x, y).losses.to_vector<float>())
      sum += static_cast<double>(each);
  }
  CHECK(step.traced() == 1);
  CHECK(mean_loss->get().second == Approx(sum / 12));
  CHECK((mean_loss->count() == 12 && accuracy->count() == 12));
  CHECK_THROWS_WITH(step.add_up({nullptr}), contains("a metric is null"));
}

namespace {

/// Adds up each batch twice.
class Twice : public est::MetricHandler {
 public:
  void batch_end(est::Estimator& estimator, const Batch& batch, const gluon::StepResult& result) override {
    CHECK_FALSE(estimator.adds_up());
    MetricHandler::batch_end(estimator, batch, result);
    MetricHandler::batch_end(estimator, batch, result);
  }
};

}  // namespace

TEST_CASE("an estimator's figures are the same by graph, by hand and by a handler of one's own", "[gluon][estimator]") {
  std::vector<std::vector<double>> figures;
  for (const est::Steps way : {est::Steps::graph, est::Steps::by_hand}) {
    Training training;
    const auto error = std::make_shared<metric::MAE>();
    est::Estimator estimator(
        training.net, training.loss, gluon::optimizer::Adam(), {.train_metrics = {error}, .steps = way});
    estimator.fit(training.loader, {.epochs = 3, .log = false});
    figures.push_back({estimator.figure("training loss"), estimator.figure("training mae")});
    CHECK(error->count() == k_samples);
    const Batch batch = *training.loader.begin();
    (void)estimator.train_batch(batch);  // which no metric sees
    CHECK(error->count() == k_samples);
    CHECK(error->get().second == figures.back()[1]);
    estimator.fit(training.loader, {.epochs = 1, .handlers = est::handlers(Twice()), .log = false});
    CHECK(error->count() == 2 * k_samples);
    figures.back().push_back(estimator.figure("training mae"));
    estimator.fit(training.loader, {.epochs = 1, .log = false});
    CHECK(error->count() == k_samples);
    figures.back().push_back(estimator.figure("training mae"));
  }
  CHECK(figures[0] == figures[1]);
}
