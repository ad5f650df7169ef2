// Estimators: what training by one gives, the order of events, errors.
#include <cmath>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/estimated.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using est::Steps;

namespace {

using Trail = std::vector<std::vector<float>>;

Trail trained_by_hand(int epochs) {
  Training training;
  Trainer trainer(training.net.collect_params(), Adam());
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& [x, y] : training.loader) {
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = training.loss(training.net(x), y);
      }
      losses.backward();
      trainer.step(x.shape()[0]);
    }
  }
  return training.trail(trainer);
}

Trail trained_by_estimator(int epochs, Steps steps, bool own_trainer) {
  Training training;
  Trainer trainer(training.net.collect_params(), Adam());
  Estimator estimator = own_trainer ? Estimator(training.net, training.loss, Adam(), {.steps = steps})
                                    : Estimator(training.net, training.loss, trainer, {.steps = steps});
  estimator.fit(training.loader, {.epochs = epochs, .log = false});
  CHECK(estimator.steps_as_graph() == (steps != Steps::by_hand));
  CHECK(estimator.progress() == est::Progress{epochs, 5 * epochs, 0, 1, epochs, 5 * epochs, k_samples * epochs});
  CHECK(estimator.stop_reason() == message(epochs, " epochs are done"));
  return training.trail(estimator.trainer());
}

/// One array in, which is looked at: no graph can be made of it.
class Looking : public gluon::Block {
 public:
  Looking() : weight_(parameter("weight", {.shape = {3, 1}, .init = gluon::init::Constant(0.5)})) {}
  mutable int calls = 0;
  int fails_at = -1;

 protected:
  NDArray forward(const NDArray& x) const override {
    if (++calls == fails_at)
      throw std::runtime_error("the network has had enough");
    const NDArray y = matmul(x, weight_.data());
    return y.to_vector<float>()[0] > 0 ? y * 2 : y;
  }

 private:
  Parameter& weight_;
};

/// A range that ends when it has been gone over.
struct OneShot {
  struct Iterator {
    OneShot* of;
    Batch operator*() const { return small_batch(2, of->at); }
    Iterator& operator++() {
      ++of->at;
      return *this;
    }
    bool operator!=(const Iterator&) const { return of->at < 3; }
  };
  int at = 0;
  Iterator begin() { return {this}; }
  Iterator end() { return {this}; }
};

class Endless : public est::BatchSource {
 public:
  int begun = 0, ended = 0;
  bool end_fails = false;
  void begin() override { ++begun; }
  const Batch* next() override {
    batch_ = small_batch(3, at_++);
    return &batch_;
  }
  void end() override {
    ++ended;
    if (end_fails)
      throw ValueError("no end");
  }

 private:
  Batch batch_;
  int at_ = 0;
};

std::function<void(Estimator&, const std::string&)> fail_at(const std::string& event, const std::string& text) {
  return [=](Estimator&, const std::string& what) {
    if (what.starts_with(event))
      throw ValueError(text);
  };
}

}  // namespace

TEST_CASE("An estimator trains as the same steps by hand do, to the last bit", "[gluon][estimator]") {
  const Trail expected = trained_by_hand(3);
  for (const Steps steps : {Steps::automatic, Steps::graph, Steps::by_hand}) {
    CHECK(trained_by_estimator(3, steps, false) == expected);
    CHECK(trained_by_estimator(3, steps, true) == expected);
  }
}

TEST_CASE("Figures of an estimator are those of its metrics", "[gluon][estimator]") {
  Training training(0);
  auto mse = std::make_shared<gluon::metric::MSE>(), other = std::make_shared<gluon::metric::MSE>();
  Estimator estimator(
      training.net, training.loss, SGD({.learning_rate = 0}), {.train_metrics = {mse}, .validation_metrics = {other}});
  CHECK(
      estimator.figure_names() ==
      std::vector<std::string>{"training loss", "training mse", "validation loss", "validation mse"});
  CHECK(std::isnan(estimator.figure("validation mse")));
  CHECK_THROWS_AS(estimator.figure("mse"), ValueError);
  estimator.fit(training.loader, {.epochs = 2, .validation = training.validation, .log = false});
  CHECK(estimator.figure("training mse") == Approx(2 * estimator.figure("training loss")));
  CHECK(mse->count() == k_samples);  // of the last epoch alone
  CHECK(estimator.validations() == 2);
  const auto figures = estimator.evaluate(training.validation);
  REQUIRE(figures.size() == 2);
  CHECK(figures[1].first == "mse");
  CHECK(figures[1].second == estimator.figure("validation mse"));
  double sum = 0;
  for (const auto& [x, y] : training.validation) {
    for (const float error : values(training.net(x) - y))
      sum += error * error;
  }
  CHECK(figures[1].second == Approx(sum / k_samples));
  CHECK_THROWS_WITH(
      Estimator(training.net, training.loss, SGD(), {.train_metrics = {mse}, .validation_metrics = {mse}}),
      sluice::test::contains("make two"));
  CHECK_THROWS_AS(Estimator(training.net, training.loss, SGD(), {.train_metrics = {nullptr}}), ValueError);
}

TEST_CASE("Events come in the order of priorities, and of the list", "[gluon][estimator]") {
  Training training;
  std::vector<std::string> seen;
  Estimator estimator(training.net, training.loss, SGD());
  const std::vector<Batch> batches = {small_batch(), small_batch()};
  estimator.fit(
      batches,
      {.epochs = 1,
       .handlers = est::handlers(Recorder("c", 1, &seen), Recorder("a", -3000, &seen), Recorder("b", 1, &seen)),
       .log = false});
  std::vector<std::string> expected;
  for (const char* event :
       {"train_begin",
        "epoch_begin",
        "batch_begin",
        "batch_end",
        "batch_begin",
        "batch_end",
        "epoch_end",
        "train_end"}) {
    for (const char* name : {"a ", "c ", "b "})
      expected.push_back(std::string(name) + event);
  }
  CHECK(seen == expected);
}

TEST_CASE("Training ends where it is told to", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  const auto fit = [&](est::FitOptions options) {
    auto recorder = std::make_shared<Recorder>();
    options.handlers.push_back(recorder);
    options.log = false;
    estimator.fit(training.loader, options);
    return std::pair(
        estimator.progress().batches, std::count(recorder->events().begin(), recorder->events().end(), "r epoch_end"));
  };
  CHECK(fit({.epochs = 0}) == std::pair(0l, 0l));
  CHECK(fit({.batches = 0}) == std::pair(0l, 0l));
  CHECK(fit({.batches = 7}) == std::pair(7l, 1l));  // in the midst of the second
  CHECK(estimator.progress().batch_in_epoch == 2);
  CHECK(fit({.batches = 10}) == std::pair(10l, 2l));  // at its very end
  CHECK(fit({.epochs = 3, .batches = 6}) == std::pair(6l, 1l));
  CHECK(fit({.epochs = 1, .batches = 6}) == std::pair(5l, 1l));
  CHECK(estimator.progress().total_batches == 28);
  CHECK(estimator.progress().fits == 6);
  int asked = 0;
  CHECK(
      fit({.handlers = est::handlers(est::StoppingHandler({.stop_when = [&] { return ++asked == 4; }}))}) ==
      std::pair(3l, 0l));
  CHECK(estimator.stop_reason() == "it was asked to stop");
  CHECK(fit({.handlers = est::handlers(est::StoppingHandler({.max_epochs = 2}))}) == std::pair(10l, 2l));
  CHECK_THROWS_WITH(fit({}), sluice::test::contains("no end"));
  CHECK_THROWS_AS(fit({.epochs = -1}), ValueError);
  CHECK_THROWS_AS(est::StoppingHandler({}), ValueError);
  CHECK_THROWS_AS(est::StoppingHandler({.max_batches = -2}), ValueError);
  CHECK(fit({.epochs = 1}) == std::pair(5l, 1l));  // as if nothing had been
}

TEST_CASE("Any range of batches will do", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  const std::list<std::pair<NDArray, NDArray>> pairs = {{small_batch().data, small_batch().label}};
  estimator.fit(pairs, {.epochs = 3, .log = false});
  CHECK(estimator.progress().batches == 3);
  estimator.fit(std::vector<Batch>{small_batch(), small_batch(1)}, {.epochs = 2, .log = false});
  CHECK(estimator.progress().batches == 4);
  OneShot shot;
  estimator.fit(shot, {.epochs = 1, .log = false});
  CHECK(estimator.progress().batches == 3);
  shot.at = 0;
  CHECK_THROWS_WITH(estimator.fit(shot, {.epochs = 2, .log = false}), sluice::test::contains("epoch 2 has no batches"));
  const auto endless = std::make_shared<Endless>();
  estimator.fit(std::shared_ptr<est::BatchSource>(endless), {.batches = 4, .log = false});
  CHECK(estimator.progress().batches == 4);
  CHECK(endless->begun == 1);
  CHECK(endless->ended == 1);
  const std::vector<Batch> none;
  CHECK_THROWS_WITH(estimator.fit(none, {.epochs = 2, .log = false}), sluice::test::contains("epoch 1 has no batches"));
  CHECK_THROWS_WITH(estimator.evaluate(none), sluice::test::contains("no batch"));
  CHECK_THROWS_AS(est::Batches(std::shared_ptr<est::BatchSource>()), ValueError);
  CHECK_THROWS_WITH(
      estimator.fit(training.loader, {.epochs = 1, .validation = training.loader, .log = false}),
      sluice::test::contains("same range"));
}

TEST_CASE("What cannot be a graph is trained by hand", "[gluon][estimator]") {
  Training training;
  Looking looking;
  looking.initialize();
  Estimator by_hand(looking, training.loss, SGD());
  by_hand.fit(training.loader, {.epochs = 1, .log = false});
  CHECK(!by_hand.steps_as_graph());
  CHECK(by_hand.trainer().optimizer().num_updates() == 5);
  Estimator graph(looking, training.loss, SGD(), {.steps = Steps::graph});
  CHECK_THROWS_AS(graph.fit(training.loader, {.epochs = 1, .log = false}), ValueError);
  CHECK(graph.trainer().optimizer().num_updates() == 0);

  class Halved : public est::BatchProcessor {
   public:
    gluon::StepResult forward(
        const gluon::Block& net, const gluon::Block& loss, const Batch& batch, SourceLocation site) const override {
      const NDArray y = net(batch.data, site) / 2;
      return {.losses = loss(y, batch.label, site), .predictions = y};
    }
  };
  Estimator halved(looking, training.loss, SGD(), {.processor = std::make_shared<Halved>()});
  const auto plain = by_hand.evaluate(training.validation), half = halved.evaluate(training.validation);
  CHECK(plain[0].second != half[0].second);
  halved.fit(training.loader, {.batches = 2, .log = false});
  CHECK_THROWS_AS(
      Estimator(looking, training.loss, SGD(), {.steps = Steps::graph, .processor = std::make_shared<Halved>()}),
      ValueError);
}

TEST_CASE("Errors end a fit, reach the caller, and leave the estimator usable", "[gluon][estimator]") {
  Training training;
  Looking looking;
  looking.initialize();
  Estimator estimator(looking, training.loss, SGD(), {.steps = Steps::by_hand});
  const auto recorder = std::make_shared<Recorder>();
  looking.fails_at = looking.calls + 3;
  CHECK_THROWS_WITH(
      estimator.fit(training.loader, {.epochs = 2, .handlers = {recorder}, .log = false}),
      sluice::test::contains("had enough"));
  CHECK(recorder->events().back() == "r train_end failed");
  CHECK(estimator.trainer().optimizer().num_updates() == 2);
  CHECK(estimator.progress().batches == 2);
  CHECK(estimator.stop_reason().empty());
  CHECK(!estimator.is_stopped());
  estimator.fit(training.loader, {.epochs = 1, .log = false});
  CHECK(estimator.trainer().optimizer().num_updates() == 7);
  for (const char* event : {"train_begin", "epoch_begin", "batch_begin", "batch_end", "epoch_end", "train_end"}) {
    INFO(event);
    Recorder failing("f", 1);
    failing.then = fail_at(event, message("no ", event));
    const auto before = std::make_shared<Recorder>("b"), behind = std::make_shared<Recorder>("l", 2);
    CHECK_THROWS_WITH(
        estimator.fit(
            training.loader,
            {.epochs = 1, .handlers = {before, std::make_shared<Recorder>(failing), behind}, .log = false}),
        sluice::test::contains(message("no ", event)) && sluice::test::contains("in Estimator::fit, called at "));
    const bool begun = std::string(event) != "train_begin";
    CHECK(before->events().back() == (std::string(event) == "train_end" ? "b train_end" : "b train_end failed"));
    CHECK(failing.events().empty() == false);
    CHECK((failing.events().back().starts_with("f train_end")) == begun);
    CHECK(behind->events().empty() == !begun);
    if (begun)
      CHECK(behind->events().back() == "l train_end failed");
    CHECK(estimator.further_errors().empty());
  }
  estimator.fit(training.loader, {.epochs = 1, .log = false});
}

TEST_CASE("A second error does not hide the first", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  Recorder first("f"), second("s"), third("t");
  first.then = fail_at("batch_end", "the first");
  second.then = fail_at("train_end", "the second");
  third.then = [](Estimator&, const std::string& what) {
    if (what.starts_with("train_end"))
      throw 3;  // NOLINT: of no type at all
  };
  CHECK_THROWS_WITH(
      estimator.fit(training.loader, {.epochs = 1, .handlers = est::handlers(first, second, third), .log = false}),
      sluice::test::contains("the first"));
  REQUIRE(estimator.further_errors().size() == 2);
  CHECK_THAT(estimator.further_errors()[0], sluice::test::contains("the second"));
  CHECK_THAT(estimator.further_errors()[1], sluice::test::contains("no std::exception"));
  const auto endless = std::make_shared<Endless>();
  endless->end_fails = true;
  const est::Batches batches(endless);
  CHECK_THROWS_WITH(
      estimator.fit(batches, {.epochs = 1, .handlers = est::handlers(first), .log = false}),
      sluice::test::contains("the first"));
  REQUIRE(estimator.further_errors().size() == 1);
  CHECK_THAT(estimator.further_errors()[0], sluice::test::contains("no end"));
  CHECK_THROWS_WITH(estimator.fit(batches, {.batches = 2, .log = false}), sluice::test::contains("no end"));
  estimator.fit(training.loader, {.epochs = 1, .log = false});
  CHECK(estimator.further_errors().empty());
}

TEST_CASE("Errors of the loader's and the network's tasks reach who called fit", "[gluon][estimator]") {
  Training training;
  class Broken : public gluon::data::Transformable<Broken> {
   public:
    std::int64_t size() const { return 8; }
    ArraySpec data_spec() const { return {{3}, float32, cpu()}; }
    ArraySpec label_spec() const { return {{1}, float32, cpu()}; }
    void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const {
      if (indices[0] == 4)
        throw FileError("sample 4 is torn");
      std::fill_n(data.as<float>(), data.size, 1.0f);
      std::fill_n(label.as<float>(), label.size, 1.0f);
    }
  };
  Trainer trainer(training.net.collect_params(), SGD());
  Estimator estimator(training.net, training.loss, trainer);
  DataLoader broken(Broken(), {.batch_size = 2});
  try {
    estimator.fit(broken, {.epochs = 1, .log = false});
    FAIL("no error");
  } catch (const FileError& error) {
    CHECK_THAT(error.what(), sluice::test::contains("torn") && sluice::test::contains("batch 2, samples 4 to 5"));
    CHECK(training.engine.forgive(error));
  }
  estimator.fit(training.loader, {.epochs = 1, .log = false});  // from the weights of the last good step on
  CHECK(std::isfinite(estimator.figure("training loss")));
}

TEST_CASE("What a handler may not do is refused", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  const auto same = std::make_shared<Recorder>();
  const auto refuse = [&](est::Handlers handlers, const char* why) {
    CHECK_THROWS_WITH(
        estimator.fit(training.loader, {.epochs = 1, .handlers = std::move(handlers), .log = false}),
        sluice::test::contains(why));
  };
  refuse({same, same}, "is there twice");
  refuse({nullptr}, "handler 0 is null");
  refuse(est::handlers(est::GradientUpdateHandler(), est::GradientUpdateHandler()), "twice");
  refuse(est::handlers(est::MetricHandler(), est::MetricHandler()), "twice");
  Recorder nested;
  nested.then = [&](Estimator& e, const std::string&) { e.fit(training.validation, {.epochs = 1, .log = false}); };
  refuse(est::handlers(nested), "fit() within fit()");
  nested.then = [&](Estimator& e, const std::string&) { e.train_batch(small_batch()); };
  refuse(est::handlers(nested), "within fit()");
  nested.then = [&](Estimator& e, const std::string&) { e.evaluate(training.loader); };
  refuse(est::handlers(nested), "trained on");
  nested.then = [](Estimator& e, const std::string& what) {
    if (what == "epoch_begin")
      e.resume_with({});
  };
  refuse(est::handlers(nested), "only an event train_begin");
  CHECK(estimator.progress().batches == 0);
  estimator.train_batch(small_batch());
  CHECK(estimator.progress().total_batches == 0);
  CHECK(estimator.trainer().optimizer().num_updates() == 1);
}
