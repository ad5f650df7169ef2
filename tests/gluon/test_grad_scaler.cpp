// amp::GradScaler: steps of scaled losses, those that are left out, and the scale after each.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/operator/autocast.h>

#include "tests/gluon/scaled_training.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;
using amp::GradScalerOptions;

namespace {

void check_graphs(Device device) {
  for (const std::optional<DType> low : std::vector<std::optional<DType>>{std::nullopt, bfloat16, float16}) {
    for (const auto& [name, make] : optimizers()) {
      CAPTURE(name);
      const ScaledTraining by_hand(make, device);
      ScaledTraining as_graph(make, device);
      const GradScalerOptions options{.init_scale = 1024, .growth_interval = 2};
      amp::init_trainer(*by_hand.trainer, options);
      amp::init_trainer(*as_graph.trainer, options);
      as_graph.graph = std::make_unique<gluon::TrainStep>(as_graph.net, as_graph.loss, *as_graph.trainer);
      std::vector<float> scales;
      for (const int i : {0, 1, 2, -1, 3, -1, -1, 4, 5, 6}) {
        const std::int64_t samples = i == 4 ? 3 : 4;
        const NDArray x = pattern_array({samples, 5}, i, device) * (i < 0 ? k_inf : 1.0F),
                      y = pattern_array({samples, 3}, i + 40, device);
        const amp::AutocastScope cast(low);
        NDArray losses;
        {
          const autograd::RecordScope record;
          losses = by_hand.loss(by_hand.net(x), y);
        }
        amp::scale_loss(losses, *by_hand.trainer).backward();
        by_hand.trainer->step(samples);
        const auto result = (*as_graph.graph)(x, y);
        CHECK((values(result.losses) == values(losses) || i < 0));
        CHECK((as_graph.all() == by_hand.all()));
        scales.push_back(scale_of(*as_graph.trainer->scaler()));
        CHECK(scale_of(*by_hand.trainer->scaler()) == scales.back());
      }
      CHECK(scales == std::vector<float>{1024, 2048, 2048, 1024, 1024, 512, 256, 256, 512, 512});
      CHECK(as_graph.graph->traced() == 1);  // of all sizes of batches
    }
  }
}

}  // namespace

TEST_CASE("A scaled step is the step without, to the last bit", "[gluon][amp]") {
  for (const auto& [name, make] : optimizers()) {
    CAPTURE(name);
    const ScaledTraining plain(make), scaled(make), own(make);
    GradScaler scaler;
    amp::init_trainer(*own.trainer);
    for (int i = 0; i < 5; ++i) {
      plain.plain(i);
      scaled.scaled(scaler, {i});
      own.own({i});
    }
    CHECK((scaled.all() == plain.all()));
    CHECK((own.all() == plain.all()));
    CHECK(scale_of(scaler) == 65536);
    CHECK(scaler.clean_steps().item<std::int64_t>() == 5);
  }
}

TEST_CASE("A step with an infinite gradient never was, but for the scale", "[gluon][amp]") {
  for (const auto& [name, make] : optimizers()) {
    for (const Meeting& bad :
         {Meeting{1, k_inf, "1.bias"}, Meeting{1, -k_inf, "0.weight"}, Meeting{1, k_nan, "0.bias"}}) {
      CAPTURE(name, bad.poison, bad.parameter);
      const ScaledTraining never(make), left_out(make);
      GradScaler a, b;
      never.scaled(a, {0});
      left_out.scaled(b, {0});
      const auto before = left_out.all();
      left_out.scaled(b, bad);
      CHECK((left_out.all() == before));
      CHECK(scale_of(b) == 32768);
      left_out.scaled(b, bad);  // and another one
      CHECK((left_out.all() == before));
      CHECK(scale_of(b) == 16384);
      CHECK(left_out.trainer->optimizer().num_updates() == 3);
      for (int i = 2; i < 5; ++i) {
        never.scaled(a, {i});
        left_out.scaled(b, {i});
      }
      CHECK((left_out.all() == never.all()));
    }
  }
}

TEST_CASE("The scale grows at the interval, shrinks at once, and keeps to its bounds", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["SGD"]);
  GradScaler scaler(
      {.init_scale = 8,
       .growth_factor = 4,
       .backoff_factor = 0.25,
       .growth_interval = 3,
       .max_scale = 100,
       .min_scale = 1});
  const auto run = [&](const std::string& steps) {
    std::vector<float> scales;
    for (const char step : steps) {
      training.scaled(scaler, {0, step == '.' ? 0 : k_inf});
      scales.push_back(scale_of(scaler));
    }
    return scales;
  };
  CHECK(run("...") == std::vector<float>{8, 8, 32});
  CHECK(run("..!") == std::vector<float>{32, 32, 8});  // one before it would have grown
  CHECK(run("..") == std::vector<float>{8, 8});        // counted anew
  CHECK(run(".") == std::vector<float>{32});
  CHECK(run("......") == std::vector<float>{32, 32, 100, 100, 100, 100});  // the cap
  CHECK(run("!!!!!") == std::vector<float>{25, 6.25F, 1.5625F, 1, 1});
  CHECK(run("..!...") == std::vector<float>{1, 1, 1, 1, 1, 4});
}

TEST_CASE("A training step as a graph scales as by hand, and leaves out the same steps", "[gluon][amp][graph]") {
  check_graphs(cpu());
}
TEST_CASE("A scaled training step on a GPU is the same as a graph and by hand", "[gluon][amp][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_graphs(gpu());
}

TEST_CASE("A scaled step is traced once for batches of all sizes, and anew for another type", "[gluon][amp][graph]") {
  const ScaledTraining training(optimizers()["Adam"]);
  amp::init_trainer(*training.trainer);
  const SoftmaxCrossEntropyLoss loss;
  gluon::TrainStep step(training.net, loss, *training.trainer);
  const auto run = [&](std::int64_t samples, std::optional<DType> low) {
    const amp::AutocastScope cast(low);
    const auto result = step(pattern_array({samples, 5}), zeros({samples}, {.dtype = int32}));
    CHECK(result.predictions.dtype() == low.value_or(float32));
    CHECK(result.losses.dtype() == float32);
    return step.traced();
  };
  CHECK(run(4, std::nullopt) == 1);
  CHECK(run(3, std::nullopt) == 1);
  CHECK(run(4, bfloat16) == 2);
  CHECK(run(7, bfloat16) == 2);
  CHECK(run(4, float16) == 3);
  CHECK(run(4, std::nullopt) == 3);
  CHECK(run(7, bfloat16) == 3);
}

TEST_CASE(
    "A scaled step of a part of the parameters is traced once for batches of all sizes too", "[gluon][amp][graph]") {
  ScaledTraining training(optimizers()["Adam"]);
  amp::init_trainer(*training.trainer);
  gluon::TrainStep step(training.net, training.loss, *training.trainer);
  const auto run = [&](std::int64_t samples) {
    step(pattern_array({samples, 5}), pattern_array({samples, 3}));
    return step.traced();
  };
  CHECK(run(4) == 1);
  for (const auto& [name, parameter] : training.net.collect_params()) {
    if (name.starts_with("0."))
      parameter.set_grad_req(GradReq::null);
  }
  CHECK(run(4) == 2);
  CHECK(run(3) == 2);
  CHECK(run(7) == 2);
}

TEST_CASE("A step prepared before losses were scaled is refused", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["SGD"]);
  const auto freeze = [&](GradReq req) {
    for (const auto& [name, parameter] : training.net.collect_params()) {
      if (name.starts_with("0."))
        parameter.set_grad_req(req);
    }
  };
  training.losses(0).backward();
  training.trainer->prepare_step(4);
  amp::init_trainer(*training.trainer);
  freeze(GradReq::null);
  training.own({.batch = 1});
  freeze(GradReq::write);
  amp::scale_loss(training.losses(2), *training.trainer).backward();
  CHECK_THROWS_WITH(
      training.trainer->apply_step(),
      contains("SGD: a step of these ") && contains("'0.weight' the first") && contains("before losses were scaled"));
  training.trainer->prepare_step(4);
  CHECK_NOTHROW(training.trainer->apply_step());
}

TEST_CASE("A step that is prepared divides by the scale, whatever step came between", "[gluon][amp]") {
  const auto trained = [](bool unscales) {
    const ScaledTraining training(optimizers()["SGD"]);
    amp::init_trainer(*training.trainer);
    training.trainer->prepare_step(4);
    amp::scale_loss(training.losses(1), *training.trainer).backward();
    if (unscales)
      amp::unscale(*training.trainer);
    training.trainer->step(4);
    amp::scale_loss(training.losses(2), *training.trainer).backward();
    training.trainer->guard_gradients({.skip_non_finite = true});
    training.trainer->apply_step();
    return training.all();
  };
  CHECK(trained(true) == trained(false));
}

TEST_CASE("A trainer whose step was recorded takes no other's scaler", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["Adam"]);
  GradScaler scaler;
  training.losses(0).backward();
  training.trainer->prepare_step(4);
  RunningSink sink;
  {
    const CallSinkScope taken(&sink);
    training.trainer->apply_step();
  }
  scaler.scale(training.losses(1)).backward();
  CHECK_THROWS_WITH(scaler.step(*training.trainer, 4), contains("a step was recorded"));
}

// Counts are kept in the order in which their parameters came: after load_states() in another one.
TEST_CASE("Scaled steps of some of the parameters are counted as theirs after states were loaded", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["Adam"]);
  const auto step = [&](bool all) {
    for (const auto& [name, parameter] : training.net.collect_params()) {
      if (name.starts_with("0."))
        parameter.set_grad_req(all ? GradReq::write : GradReq::null);
    }
    training.own({});
  };
  const auto counts = [&] {
    const auto states = training.trainer->optimizer().states();
    return std::vector<std::int64_t>{
        states.at("0.weight.num_updates").item<std::int64_t>(), states.at("1.bias.num_updates").item<std::int64_t>()};
  };
  amp::init_trainer(*training.trainer);
  step(true);
  step(false);
  training.trainer->optimizer().load_states(training.trainer->optimizer().states());
  CHECK(counts() == std::vector<std::int64_t>{1, 2});
  step(false);
  step(true);
  step(false);
  CHECK(counts() == std::vector<std::int64_t>{2, 5});
  // One prepared before is of counts that are no more, by which its rates would go.
  training.trainer->prepare_step(4);
  training.trainer->optimizer().load_states(training.trainer->optimizer().states());
  CHECK_THROWS_WITH(training.trainer->apply_step(), contains("was not prepared"));
}

TEST_CASE("Trainers that share a scaler step together, and the scale follows the worst", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const ScaledTraining good(make), bad(make);
  GradScaler scaler;
  const auto forward = [&] {
    scaler.scale(good.losses(0)).backward();
    scaler.scale(bad.losses(0)).backward();
  };
  good.scaled(scaler, {1});
  bad.scaled(scaler, {1});
  forward();
  bad.poison({0, k_nan});
  const auto before_good = good.all(), before_bad = bad.all();
  scaler.step(*good.trainer, 4);
  scaler.step(*bad.trainer, 4);
  CHECK_THROWS_WITH(scaler.step(*good.trainer, 4), sluice::test::contains("update()"));
  CHECK(scale_of(scaler) == 65536);
  scaler.update();
  CHECK(scale_of(scaler) == 32768);
  scaler.update();  // nothing stepped
  CHECK(scale_of(scaler) == 32768);
  CHECK((good.all() != before_good));
  CHECK((bad.all() == before_bad));
  forward();
  scaler.step(*bad.trainer, 4);
  scaler.step(*good.trainer, 4);
  scaler.update();
  CHECK(scaler.clean_steps().item<std::int64_t>() == 1);
}

TEST_CASE("A scaler that a trainer's steps update is no other trainer's", "[gluon][amp]") {
  const Make make = optimizers()["SGD"];
  const ScaledTraining other(make);
  GradScaler scaler;
  {
    const ScaledTraining first(make);
    amp::init_trainer(*first.trainer, scaler);
    CHECK_THROWS_WITH(amp::init_trainer(*other.trainer, scaler), sluice::test::contains("another trainer"));
    CHECK_THROWS_AS(amp::init_trainer(*other.trainer, *first.trainer->scaler()), ValueError);
    CHECK(other.trainer->scaler() == nullptr);
    scaler.scale(other.losses(0)).backward();
    CHECK_THROWS_WITH(scaler.unscale(*other.trainer), sluice::test::contains("another trainer"));
    CHECK_THROWS_WITH(scaler.step(*other.trainer, 4), sluice::test::contains("another trainer"));
    const auto before = other.all();
    first.own({0, k_inf});
    CHECK(scale_of(scaler) == 32768);
    CHECK((other.all() == before));
    Trainer moved(std::move(*first.trainer));
    CHECK_THROWS_AS(amp::init_trainer(*other.trainer, scaler), ValueError);
    CHECK_THROWS_AS(moved.set_scaler(scaler), ValueError);
  }
  amp::init_trainer(*other.trainer, scaler);  // the first one has gone
  other.own({1});
  CHECK(scaler.clean_steps().item<std::int64_t>() == 1);
  const ScaledTraining one(make), two(make);
  const GradScaler disabled({.enabled = false});
  amp::init_trainer(*one.trainer, disabled);
  CHECK_NOTHROW(amp::init_trainer(*two.trainer, disabled));
}

TEST_CASE("A scaler that a trainer refused is still free", "[gluon][amp]") {
  struct Unguarded final : public gluon::optimizer::SGD {
    bool takes_guard() const override { return false; }
  };
  const ScaledTraining refuses([] { return std::make_unique<Unguarded>(); }), takes(optimizers()["SGD"]);
  const GradScaler scaler;
  CHECK_THROWS_AS(amp::init_trainer(*refuses.trainer, scaler), UnsupportedError);
  CHECK(refuses.trainer->scaler() == nullptr);
  CHECK_NOTHROW(amp::init_trainer(*takes.trainer, scaler));
}

TEST_CASE("Parameters that are frozen meanwhile are not counted, whoever overflows", "[gluon][amp]") {
  for (const bool as_graph : {false, true}) {
    const Make make = optimizers()["AdamW"];
    ScaledTraining never(make), left_out(make);
    for (ScaledTraining* const one : {&never, &left_out}) {
      amp::init_trainer(*one->trainer);
      if (as_graph)
        one->graph = std::make_unique<gluon::TrainStep>(one->net, one->loss, *one->trainer);
    }
    const auto step = [&](const ScaledTraining& one, int i, bool overflows) {
      const NDArray x = pattern_array({4, 5}, i) * (overflows ? k_inf : 1.0F), y = pattern_array({4, 3}, i + 40);
      if (as_graph) {
        (*one.graph)(x, y);
        return;
      }
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = one.loss(one.net(x), y);
      }
      amp::scale_loss(losses, *one.trainer).backward();
      one.trainer->step(4);
    };
    const auto freeze = [&](const std::string& prefix, GradReq req) {
      for (const ScaledTraining* const one : {&never, &left_out}) {
        for (const auto& [name, parameter] : one->net.collect_params()) {
          if (name.starts_with(prefix))
            parameter.set_grad_req(req);
        }
      }
    };
    int next = 0;
    for (const std::string frozen : {"", "0.", "1.", "", "1."}) {
      if (!frozen.empty())
        freeze(frozen, GradReq::null);
      for (int turn = 0; turn < 2; ++turn) {
        step(left_out, 90, true);
        step(never, next, false);
        step(left_out, next++, false);
        CHECK((left_out.all() == never.all()));
      }
      if (!frozen.empty())
        freeze(frozen, GradReq::write);
    }
    const auto states = left_out.trainer->optimizer().states();
    CHECK(states.at("0.weight.num_updates").item<std::int64_t>() == 8);
    CHECK(states.at("1.weight.num_updates").item<std::int64_t>() == 6);
  }
}
