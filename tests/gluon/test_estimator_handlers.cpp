// The handlers of estimators, each away from its defaults and in an order that nobody means.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/estimated.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;

namespace {

using Trail = std::vector<std::vector<float>>;

/// Whole numbers, so that sums have the same bits in any order.
Batch whole_batch(std::int64_t n, int start) {
  std::vector<float> x, y;
  for (std::int64_t i = 0; i < n * 2; ++i)
    x.push_back(static_cast<float>((start * 2 + i) * 5 % 7 - 3));
  for (std::int64_t i = 0; i < n; ++i)
    y.push_back(static_cast<float>((start + i) * 3 % 5));
  return {array(x, {n, 2}), array(y, {n, 1})};
}

struct Linear {
  gluon::nn::Dense net{1, {.in_units = 2}};
  L2Loss loss;
  Trainer trainer;
  Linear()
      : trainer((net.initialize(gluon::init::Constant(0.5)), net.collect_params()), SGD({.learning_rate = 0.25})) {}
  Trail parameters() const {
    return {values(net.own_parameter("weight").data()), values(net.own_parameter("bias").data())};
  }
};

/// What steps of these batches leave, each by hand.
Trail stepped(const std::vector<Batch>& batches) {
  Linear linear;
  for (const auto& [x, y] : batches) {
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = linear.loss(linear.net(x), y);
    }
    losses.backward();
    linear.trainer.step(x.shape()[0]);
  }
  return linear.parameters();
}

/// What steps leave whose batches' gradients are added up by hand: in the order in which they come, whatever kernels
/// sum.
Trail added_up(const std::vector<std::vector<Batch>>& steps) {
  Linear linear;
  for (const auto& [name, parameter] : linear.net.collect_params())
    parameter.set_grad_req(GradReq::add);
  for (const std::vector<Batch>& batches : steps) {
    linear.net.zero_grad();
    std::int64_t samples = 0;
    for (const auto& [x, y] : batches) {
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = linear.loss(linear.net(x), y);
      }
      losses.backward();
      samples += x.shape()[0];
    }
    linear.trainer.step(samples);
  }
  return linear.parameters();
}

/// A metric that says what it is told.
class Said : public gluon::metric::Metric {
 public:
  explicit Said(std::string name) : Metric(std::move(name)) {}
  std::vector<double> says;
  mutable std::size_t at = 0;

 protected:
  void add(const NDArray&, const NDArray&) override {}
  double value(SourceLocation) const override { return says.at(std::min(at++, says.size() - 1)); }
};

}  // namespace

TEST_CASE("Gradients of several batches make one step, bit for bit that of all their samples", "[gluon][estimator]") {
  const std::vector<Batch> quarters = {whole_batch(4, 0), whole_batch(4, 4), whole_batch(4, 8), whole_batch(4, 12)};
  const auto fit = [&](const est::GradientUpdateOptions& options, std::int64_t steps, std::int64_t epochs = 1) {
    Linear linear;
    Estimator estimator(linear.net, linear.loss, linear.trainer);
    estimator.fit(
        quarters, {.epochs = epochs, .handlers = est::handlers(est::GradientUpdateHandler(options)), .log = false});
    CHECK(linear.trainer.optimizer().num_updates() == steps);
    CHECK(linear.net.own_parameter("weight").grad_req() == GradReq::write);
    return linear.parameters();
  };
  CHECK(fit({.every = 1}, 4) == stepped(quarters));
  CHECK(fit({.every = 4}, 1) == stepped({whole_batch(16, 0)}));
  CHECK(fit({.every = 2}, 2) == stepped({whole_batch(8, 0), whole_batch(8, 8)}));
  CHECK(fit({.every = 3}, 2) == stepped({whole_batch(12, 0), whole_batch(4, 12)}));  // the last group is smaller
  CHECK(fit({.every = 3, .discard_partial = true}, 1) == stepped({whole_batch(12, 0)}));
  CHECK(fit({.every = 9}, 1) == stepped({whole_batch(16, 0)}));
  CHECK(fit({.every = 9, .discard_partial = true}, 0) == stepped({}));
  const std::vector<Batch> first(quarters.begin(), quarters.begin() + 3), last(quarters.begin() + 3, quarters.end());
  CHECK(fit({.every = 3}, 4, 2) == added_up({first, last, first, last}));
  CHECK_THROWS_AS(est::GradientUpdateHandler({.every = 0}), ValueError);
}

TEST_CASE("Batches of other sizes count by their samples in one step", "[gluon][estimator]") {
  Linear linear;
  Estimator estimator(linear.net, linear.loss, linear.trainer);
  const std::vector<Batch> uneven = {whole_batch(6, 0), whole_batch(2, 6)};
  estimator.fit(
      uneven, {.epochs = 1, .handlers = est::handlers(est::GradientUpdateHandler({.every = 2})), .log = false});
  CHECK(linear.parameters() == stepped({whole_batch(8, 0)}));
}

TEST_CASE(
    "Adding gradients up leaves no trace, after errors and for parameters that are not trained", "[gluon][estimator]") {
  Linear linear;
  linear.net.own_parameter("bias").set_grad_req(GradReq::null);
  Estimator estimator(linear.net, linear.loss, linear.trainer);
  const auto handler = std::make_shared<est::GradientUpdateHandler>(est::GradientUpdateOptions{.every = 2});
  Recorder failing;
  failing.then = [&](Estimator&, const std::string& what) {
    if (what == "batch_end") {
      CHECK(handler->pending() == 1);
      CHECK(linear.net.own_parameter("weight").grad_req() == GradReq::add);
      throw ValueError("enough");
    }
  };
  const std::vector<Batch> one = {whole_batch(4, 0)};
  CHECK_THROWS_AS(
      estimator.fit(one, {.epochs = 1, .handlers = {handler, std::make_shared<Recorder>(failing)}, .log = false}),
      ValueError);
  CHECK(handler->pending() == 0);
  CHECK(linear.net.own_parameter("weight").grad_req() == GradReq::write);
  CHECK(linear.net.own_parameter("bias").grad_req() == GradReq::null);
  estimator.fit(one, {.epochs = 1, .log = false});
  CHECK(linear.trainer.optimizer().num_updates() == 1);
  CHECK(values(linear.net.own_parameter("bias").data()) == std::vector<float>{0});
}

TEST_CASE("Gradients that parameters add up anyway are zeroed behind each step", "[gluon][estimator]") {
  const std::vector<Batch> batches = {whole_batch(4, 0), whole_batch(4, 4), whole_batch(4, 8)};
  const auto fit = [&](std::int64_t every, std::int64_t stop = 100) {
    Linear linear;
    const Parameter weight = linear.net.own_parameter("weight");
    weight.set_grad_req(GradReq::add);
    weight.grad().assign(full({1, 2}, 77));
    Estimator estimator(linear.net, linear.loss, linear.trainer);
    estimator.fit(
        batches,
        {.epochs = 2,
         .batches = stop,
         .handlers = est::handlers(est::GradientUpdateHandler({.every = every})),
         .log = false});
    CHECK(weight.grad_req() == GradReq::add);
    CHECK(values(weight.grad()) == std::vector<float>{0, 0});
    CHECK(linear.net.own_parameter("bias").grad_req() == GradReq::write);
    return linear.parameters();
  };
  const auto twice = [](std::vector<Batch> epoch) {
    const std::vector<Batch> again = epoch;
    epoch.insert(epoch.end(), again.begin(), again.end());
    return epoch;
  };
  CHECK(fit(1) == stepped(twice(batches)));
  CHECK(fit(2) == stepped(twice({whole_batch(8, 0), whole_batch(4, 8)})));
  CHECK(fit(3) == stepped(twice({whole_batch(12, 0)})));
  CHECK(fit(2, 1) == stepped({}));  // one waits when training ends
}

TEST_CASE("Without a handler for it, who has gradients added up zeroes them", "[gluon][estimator]") {
  Linear linear;
  linear.net.own_parameter("weight").set_grad_req(GradReq::add);
  linear.net.own_parameter("bias").set_grad_req(GradReq::add);
  Estimator estimator(linear.net, linear.loss, linear.trainer);
  Recorder zeroing;
  zeroing.then = [&](Estimator&, const std::string& what) {
    if (what == "batch_end") {
      for (const auto& [name, parameter] : linear.net.collect_params())
        parameter.zero_grad();
    }
  };
  const std::vector<Batch> batches = {whole_batch(4, 0), whole_batch(4, 4)};
  estimator.fit(batches, {.epochs = 1, .handlers = est::handlers(zeroing), .log = false});
  CHECK(linear.parameters() == stepped(batches));
}

TEST_CASE("Losses are scaled for a trainer that scales them, however steps are taken", "[gluon][estimator]") {
  const std::vector<Batch> batches = {whole_batch(4, 0), whole_batch(4, 4)};
  class Own : public est::BatchProcessor {};
  const auto trained = [&](const est::EstimatorOptions& options, est::Handlers handlers, bool is_scaled) {
    Linear linear;
    if (is_scaled)
      amp::init_trainer(linear.trainer, {.init_scale = 1024});
    Estimator estimator(linear.net, linear.loss, linear.trainer, options);
    estimator.fit(batches, {.epochs = 1, .handlers = handlers, .log = false});
    estimator.train_batch(whole_batch(4, 8));
    CHECK(linear.trainer.optimizer().num_updates() == (handlers.empty() ? 3 : 2));
    return linear.parameters();
  };
  const Trail expected = stepped({whole_batch(4, 0), whole_batch(4, 4), whole_batch(4, 8)});
  CHECK(trained({.steps = est::Steps::graph}, {}, true) == expected);
  for (const bool is_scaled : {false, true}) {
    CHECK(trained({.steps = est::Steps::by_hand}, {}, is_scaled) == expected);
    CHECK(trained({.processor = std::make_shared<Own>()}, {}, is_scaled) == expected);
    CHECK(
        trained({}, est::handlers(est::GradientUpdateHandler({.every = 2})), is_scaled) ==
        stepped({whole_batch(8, 0), whole_batch(4, 8)}));
  }
}

TEST_CASE("Validation comes when it is asked for", "[gluon][estimator]") {
  const auto validations = [](const est::ValidationOptions& options, std::int64_t epochs) {
    Training training;
    Estimator estimator(training.net, training.loss, SGD());
    estimator.fit(
        training.loader,
        {.epochs = epochs,
         .validation = training.validation,  // which the handler has, too
         .handlers = est::handlers(est::ValidationHandler(training.validation, options)),
         .log = false});
    return estimator.validations();
  };
  CHECK(validations({}, 3) == 3);
  CHECK(validations({.every_epochs = 2}, 5) == 2);
  CHECK(validations({.every_epochs = 0, .every_batches = 4}, 3) == 3);
  CHECK(validations({.every_epochs = 1, .every_batches = 5}, 3) == 3);  // the same moments
  CHECK(validations({.every_epochs = 1, .every_batches = 2}, 2) == 6);
  Training training;
  CHECK_THROWS_AS(est::ValidationHandler(training.validation, {.every_epochs = 0}), ValueError);
  CHECK_THROWS_AS(est::ValidationHandler(training.validation, {.every_epochs = -1, .every_batches = 3}), ValueError);
}

namespace {

/// After how many epochs training ends, where validation says these figures.
std::int64_t epochs_until_stop(
    const std::vector<double>& says, const est::EarlyStoppingOptions& options, const std::string& name = "said") {
  Training training;
  const auto said = std::make_shared<Said>(name);
  said->says = says;
  Estimator estimator(training.net, training.loss, SGD(), {.validation_metrics = {said}});
  said->at = 0;
  const std::vector<Batch> one = {small_batch()};
  Recorder watching("w", 1);
  estimator.fit(
      one,
      {.epochs = 20,
       .validation = est::Batches(std::vector<Batch>{small_batch()}),
       .handlers = est::handlers(est::EarlyStoppingHandler(options), watching),
       .log = false});
  return estimator.progress().epochs;
}

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("Training ends when a figure gets no better", "[gluon][estimator]") {
  const auto stops = [](std::vector<double> says, est::EarlyStoppingOptions options, const std::string& name = "said") {
    options.monitor = "validation " + name;
    return epochs_until_stop(says, options, name);
  };
  CHECK(stops({5, 4, 3, 3}, {}) == 4);
  CHECK(stops({5, 4, 3, 3, 2, 2, 2}, {.patience = 2}) == 7);
  CHECK(stops({5, 4, 3, 3, 2, 2, 2}, {.patience = 1}) == 4);
  CHECK(stops({5, 4.6, 4.3, 3.9}, {.min_delta = 0.5}) == 2);
  CHECK(stops({5, 4.4, 4.3}, {.min_delta = 0.5}) == 3);
  CHECK(stops({1, 2, 3, 3}, {.mode = est::MonitorMode::max}) == 4);
  CHECK(stops({1, 2, 3, 3}, {}, "top_k_accuracy_5") == 4);
  CHECK(stops({1, 2}, {.mode = est::MonitorMode::min}, "accuracy") == 2);
  CHECK(stops({5, 4}, {.baseline = 3}) == 1);
  CHECK(stops({5, 4, 2, 2}, {.patience = 3, .baseline = 3}) == 6);
  CHECK(stops({k_nan, 5, 4, 4}, {.patience = 2}) == 5);
  CHECK(stops({5, k_nan, k_nan, 1}, {.patience = 2}) == 3);
  CHECK(stops({k_nan, k_nan}, {.patience = 2}) == 2);
  CHECK(stops({-std::numeric_limits<double>::infinity(), -5}, {}) == 2);
  CHECK(stops({20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1}, {}) == 20);
}

TEST_CASE("What early stopping cannot watch is refused", "[gluon][estimator]") {
  CHECK_THROWS_AS(est::EarlyStoppingHandler({.patience = -1}), ValueError);
  CHECK_THROWS_AS(est::EarlyStoppingHandler({.min_delta = -1}), ValueError);
  CHECK_THROWS_AS(est::EarlyStoppingHandler({.min_delta = k_nan}), ValueError);
  CHECK_THROWS_AS(est::EarlyStoppingHandler({.baseline = k_nan}), ValueError);
  CHECK_THROWS_WITH(epochs_until_stop({1}, {.monitor = "validation f1"}), sluice::test::contains("'validation said'"));
}

TEST_CASE("A second fit stops early by its own figures", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0}));
  const auto early = std::make_shared<est::EarlyStoppingHandler>(est::EarlyStoppingOptions{.patience = 2});
  const est::FitOptions options{.epochs = 9, .validation = training.validation, .handlers = {early}, .log = false};
  estimator.fit(training.loader, options);
  const std::int64_t epochs = estimator.progress().epochs;
  CHECK(epochs < 9);
  CHECK_THAT(estimator.stop_reason(), sluice::test::contains("validation loss was"));
  const est::FitOptions unvalidated{.epochs = 1, .handlers = {early}, .log = false};
  CHECK_THROWS_WITH(estimator.fit(training.loader, unvalidated), sluice::test::contains("nothing validates"));
  estimator.fit(training.loader, options);
  CHECK(estimator.progress().epochs >= 3);
}

TEST_CASE("Who reads a figure before metrics see the batch keeps it from nobody", "[gluon][estimator]") {
  std::vector<double> late;
  Recorder early("e", -3000), behind("b", 1);
  early.then = [](Estimator& e, const std::string&) { e.figure("training loss"); };
  behind.then = [&](Estimator& e, const std::string& what) {
    if (what == "batch_end" || what == "epoch_end")
      late.push_back(e.figure("training loss"));
  };
  const auto fit = [&](est::Handlers handlers) {
    Training same;
    late.clear();
    Estimator(same.net, same.loss, SGD()).fit(same.loader, {.epochs = 2, .handlers = handlers, .log = false});
    return late;
  };
  const std::vector<double> expected = fit(est::handlers(behind));
  CHECK(expected.size() == 12);
  CHECK(fit(est::handlers(early, behind)) == expected);
}

TEST_CASE("A metric that is never updated, and one of training that is watched", "[gluon][estimator]") {
  Training training;
  const auto never = std::make_shared<Said>("never");
  Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0}), {.train_metrics = {never}});
  class Nothing : public est::MetricHandler {
   public:
    void batch_end(Estimator&, const Batch&, const gluon::StepResult&) override {}
  };
  estimator.fit(
      training.loader,
      {.epochs = 9,
       .handlers = est::handlers(Nothing(), est::EarlyStoppingHandler({.monitor = "training never", .patience = 3})),
       .log = false});
  CHECK(estimator.progress().epochs == 3);
  CHECK(std::isnan(estimator.figure("training never")));
  CHECK(std::isnan(estimator.figure("training loss")));
}
