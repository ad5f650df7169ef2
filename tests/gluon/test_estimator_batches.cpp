// Batches that are no pairs, figures that never come, and terminals that are narrow.
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gluon/estimated.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using sluice::test::contains;

namespace {

// Numbers, how many they are, and a label: lengths and labels have one type and one shape.
Batch triple(std::int64_t n = 4) {
  return {
      .data = pattern_array({n, k_features}), .label = full({n, 1}, 3), .more = {pattern_array({n, 1}, 5)}, .count = 3};
}

Batch single() {
  return {.data = pattern_array({4, k_features}), .count = 1};
}

/// Labels are the third array.
class OfThree : public est::BatchProcessor {
 public:
  explicit OfThree(bool says_labels) : says_labels_(says_labels) {}
  gluon::StepResult forward(
      const gluon::Block& net, const gluon::Block& loss, const Batch& batch, SourceLocation site) const override {
    const auto [x, lengths, y] = batch.arrays<3>();
    gluon::StepResult result{.predictions = net(x / lengths, site)};
    result.losses = loss(result.predictions, y, site);
    if (says_labels_)
      result.labels = y;
    return result;
  }

 private:
  bool says_labels_;
};

/// Gives predictions and what they are made of.
class OfTwo : public gluon::Block {
 public:
  OfTwo() : dense_(child("dense", gluon::nn::Dense(1, {.in_units = k_features}))) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    const NDArray y = (*dense_)(inputs[0]);
    return {tanh(y), y};
  }

 private:
  gluon::Child<gluon::nn::Dense> dense_;
};

/// Of predictions, which it wants small before they were squashed.
class Squashed : public gluon::Block {
 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 3);
    return {mean(square(inputs[0] - inputs[2]) + 0.1 * square(inputs[1]), {1})};
  }
};

}  // namespace

TEST_CASE("Two names for three arrays are an error", "[gluon][data]") {
  const auto take_two = [](auto&& batch) {
    auto [x, y] = std::forward<decltype(batch)>(batch);
    return x.shape();
  };
  Batch three = triple();
  const Batch constant = triple();
  CHECK_THROWS_AS(take_two(three), ValueError);
  CHECK_THROWS_WITH(take_two(constant), contains("this batch has 3 arrays") && contains("batch.arrays<3>()"));
  CHECK_THROWS_WITH(take_two(triple()), contains("batch.arrays<3>()"));
  CHECK_THROWS_AS(three.get<1>(), ValueError);
  three.count = 2;  // by hand, and forgotten
  CHECK_THROWS_WITH(take_two(three), contains("this batch has 3 arrays"));
  CHECK(take_two(small_batch()) == Shape{4, k_features});
  CHECK(take_two(single()) == Shape{4, k_features});
}

TEST_CASE("An estimator does not take lengths for labels", "[gluon][estimator]") {
  for (const est::Steps steps : {est::Steps::automatic, est::Steps::graph, est::Steps::by_hand}) {
    Training training;
    Estimator estimator(training.net, training.loss, SGD(), {.steps = steps});
    const auto before = training.trail(estimator.trainer());
    for (const std::vector<Batch>& batches : {std::vector<Batch>{triple()}, std::vector<Batch>{single()}}) {
      const std::string count = std::to_string(batches[0].count);
      CHECK_THROWS_WITH(
          estimator.fit(batches, {.epochs = 1, .log = false}),
          contains("a batch of " + count + " arrays") && contains("BatchProcessor"));
      CHECK_THROWS_AS(estimator.evaluate(batches), ValueError);
      CHECK_THROWS_AS(estimator.train_batch(batches[0]), ValueError);
    }
    CHECK(training.trail(estimator.trainer()) == before);
    CHECK_NOTHROW(estimator.fit(training.loader, {.batches = 1, .log = false}));
  }
}

TEST_CASE("A BatchProcessor says which array metrics compare with", "[gluon][estimator]") {
  Training training(0);
  const std::vector<Batch> batches{triple(), triple(3)};
  const auto error_of = [&](bool says_labels) {
    const auto mae = std::make_shared<gluon::metric::MAE>(), of_training = std::make_shared<gluon::metric::MAE>();
    Estimator estimator(
        training.net,
        training.loss,
        SGD(),
        {.train_metrics = {of_training},
         .validation_metrics = {mae},
         .processor = std::make_shared<OfThree>(says_labels)});
    estimator.fit(batches, {.batches = 1, .log = false});
    return estimator.evaluate(batches)[1].second;
  };
  CHECK_THROWS_WITH(error_of(false), contains("metric \"mae\"") && contains("StepResult::labels"));
  const double error = error_of(true);
  double sum = 0;
  std::int64_t count = 0;
  for (const Batch& batch : batches) {
    const NDArray far = abs(training.net(batch.data / batch.label) - batch.more[0]);
    for (const float one : values(far)) {
      sum += one;
      ++count;
    }
  }
  CHECK(error == Approx(sum / static_cast<double>(count)).epsilon(1e-5));
}

TEST_CASE("A loss gets all that a network gives, as a graph, by hand and in validation", "[gluon][estimator]") {
  std::vector<std::vector<float>> trails;
  for (const est::Steps steps : {est::Steps::graph, est::Steps::by_hand, est::Steps::automatic}) {
    Engine engine({.workers = 2, .seed = 5});
    const EngineScope here(engine);
    OfTwo net;
    net.initialize(gluon::init::One());
    const Squashed loss;
    const auto mae = std::make_shared<gluon::metric::MAE>();
    Estimator estimator(net, loss, SGD(), {.validation_metrics = {mae}, .steps = steps});
    const Batch batch = small_batch();
    const gluon::StepResult result = estimator.train_batch(batch);
    REQUIRE(result.outputs.size() == 2);
    CHECK(values(result.predictions) == values(result.outputs[0]));
    CHECK_FALSE(autograd::on_tape(result.outputs[1]));
    const std::vector<Batch> batches{batch, small_batch(3, 5)};
    estimator.fit(batches, {.epochs = 2, .validation = std::vector<Batch>{small_batch(5, 9)}, .log = false});
    CHECK(estimator.steps_as_graph() == (steps != est::Steps::by_hand));
    std::vector<float> trail = values(net.collect_params()["dense.weight"].data());
    for (const char* const name : {"validation loss", "validation mae"})
      trail.push_back(static_cast<float>(estimator.figure(name)));
    trails.push_back(trail);
  }
  CHECK(trails[0] == trails[1]);
  CHECK(trails[0] == trails[2]);
}

TEST_CASE("A BatchProcessor's outputs come to handlers, and it need not give predictions", "[gluon][estimator]") {
  class LossesAlone : public est::BatchProcessor {
   public:
    gluon::StepResult forward(
        const gluon::Block& net, const gluon::Block& loss, const Batch& batch, SourceLocation site) const override {
      const NDArray y = net(batch.data, site);
      return {.losses = loss(y, batch.label, site), .outputs = {y, 2 * y}};
    }
  };
  Training training(0);
  Estimator estimator(training.net, training.loss, SGD(), {.processor = std::make_shared<LossesAlone>()});
  const gluon::StepResult result = estimator.train_batch(small_batch());
  CHECK_FALSE(result.predictions.defined());
  REQUIRE(result.outputs.size() == 2);
  CHECK_FALSE(autograd::on_tape(result.outputs[0]));
  CHECK(values(result.outputs[1]) == values(2 * result.outputs[0]));
}

TEST_CASE("Watching validation where there is none is an error", "[gluon][estimator]") {
  const TemporaryFolder folder;
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  const auto fit = [&](est::Handlers handlers, bool validates) {
    est::FitOptions options{.epochs = 2, .handlers = std::move(handlers), .log = false};
    if (validates)
      options.validation.emplace(training.validation);
    estimator.fit(training.loader, std::move(options));
  };
  const auto checkpoints = [&](const char* monitor) {
    return est::CheckpointHandler({.folder = folder / monitor, .monitor = monitor, .existing = est::Existing::remove});
  };
  const auto before = training.trail(estimator.trainer());
  const auto refuses = [&](const est::Handlers& handlers) {
    CHECK_THROWS_WITH(
        fit(handlers, false),
        contains("'validation loss' is watched, and nothing validates") && contains("FitOptions::validation"));
  };
  refuses(est::handlers(est::EarlyStoppingHandler()));
  refuses(est::handlers(checkpoints("validation loss")));
  CHECK(training.trail(estimator.trainer()) == before);
  CHECK_NOTHROW(fit(est::handlers(est::EarlyStoppingHandler({.monitor = "training loss", .patience = 9})), false));
  CHECK_NOTHROW(fit(est::handlers(est::EarlyStoppingHandler({.patience = 9}), checkpoints("validation loss")), true));
  CHECK_NOTHROW(fit(
      est::handlers(est::EarlyStoppingHandler({.patience = 9}), est::ValidationHandler(training.validation)), false));
  const auto own = std::make_shared<Recorder>();  // may evaluate, who knows
  const auto stopping = std::make_shared<est::EarlyStoppingHandler>();
  own->then = [&](Estimator& e, const std::string& event) {
    if (event == "epoch_end")
      e.evaluate(training.validation);
  };
  fit({own, stopping}, false);
  CHECK(std::isfinite(stopping->best()));
}

TEST_CASE("The bar keeps within the terminal", "[gluon][estimator]") {
  const auto drawn = [](std::optional<int> columns) {
    Training training;
    Estimator estimator(
        training.net,
        training.loss,
        SGD(),
        {.train_metrics = {std::make_shared<gluon::metric::MAE>(), std::make_shared<gluon::metric::RMSE>()}});
    std::string text;
    const auto print = [&](const std::string& more) { text += more; };
    est::LoggingHandler logging({.figures_every = 0, .is_terminal = true, .columns = columns, .print = print});
    estimator.fit(training.loader, {.epochs = 1, .handlers = est::handlers(logging)});
    const std::string from = "\r\033[K";
    const std::size_t at = text.find(from) + from.size();
    return text.substr(at, text.find(from, at) - at);
  };
  const std::string wide = drawn(200), usual = drawn({}), narrow = drawn(40), least = drawn(1);
  CHECK_THAT(wide, contains("  training mae ") && contains("  training rmse "));
  CHECK(wide.size() > 79);
  CHECK_THAT(wide, contains("epoch 1/1 [====                ] 1/5  training "));
  CHECK(usual.size() <= 79);
  CHECK_THAT(
      usual, contains("epoch 1/1 batch 1/5  training loss ") && !contains("rmse") && contains(" samples/s  0:00"));
  CHECK(narrow.size() <= 39);
  CHECK_THAT(narrow, contains("epoch 1/1 batch 1/5  ") && !contains("loss"));
  CHECK(least.size() <= 1);
  CHECK_THROWS_AS(est::LoggingHandler({.columns = 0}), ValueError);
}

TEST_CASE("The bar shows no figures of the epoch before", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  std::string text;
  const auto print = [&](const std::string& more) { text += more; };
  const auto logging = std::make_shared<est::LoggingHandler>(
      est::LoggingOptions{.figures_every = 0.15, .is_terminal = true, .columns = 200, .print = print});
  const auto slow = std::make_shared<Recorder>();
  slow->then = [](Estimator& e, const std::string& event) {
    if (event == "batch_begin" && e.progress().batches == 4)  // figures are read in the last batch of the first epoch
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  estimator.fit(training.loader, {.epochs = 2, .handlers = {logging, slow}});
  const auto bar_at = [&](std::size_t at) {
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\r', at) - at);
  };
  const std::string last = bar_at(text.rfind("epoch 1/2 [")), first = bar_at(text.find("epoch 2/2 ["));
  const std::size_t loss = last.find("  training loss ");
  REQUIRE(loss != std::string::npos);
  CHECK_THAT(first, !contains(last.substr(loss, last.find("  ", loss + 2) - loss)));
}
