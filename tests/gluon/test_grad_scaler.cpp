// amp::GradScaler: steps of scaled losses, those that are left out, and the scale after each.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/operator/autocast.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using amp::GradScaler;
using amp::GradScalerOptions;

namespace {

namespace nn = gluon::nn;
constexpr float k_inf = std::numeric_limits<float>::infinity(), k_nan = std::numeric_limits<float>::quiet_NaN();

using Make = std::function<std::unique_ptr<Optimizer>()>;

// Those that count steps, and some that do not.
std::map<std::string, Make> optimizers() {
  using namespace gluon::optimizer;
  return {
      {"SGD", [] { return std::make_unique<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9}); }},
      {"Adam", [] { return std::make_unique<Adam>(AdamOptions{.learning_rate = 0.02}); }},
      {"AdamW", [] { return std::make_unique<AdamW>(AdamWOptions{.learning_rate = 0.02}); }},
      {"LAMB", [] { return std::make_unique<LAMB>(LAMBOptions{.learning_rate = 0.02, .weight_decay = 0.01}); }},
      {"LAMB plain", [] { return std::make_unique<LAMB>(LAMBOptions{.bias_correction = false}); }},
      {"Ftrl", [] { return std::make_unique<Ftrl>(FtrlOptions{.lamda1 = 0.001}); }},
      {"RMSProp", [] { return std::make_unique<RMSProp>(RMSPropOptions{.centered = true}); }}};
}

/// What a step meets: the number of its batch, and what one gradient is overwritten with.
struct Meeting {
  int batch = 0;
  float poison = 0;  // not 0: of an element of the parameter
  std::string parameter = "1.bias";
};

/// A small network whose gradients come from batches by number.
struct Training {
  nn::Sequential net;
  std::unique_ptr<Trainer> trainer;
  L2Loss loss;
  std::unique_ptr<gluon::TrainStep> graph;

  explicit Training(const Make& make, Device device = cpu()) {
    Engine::current().seed(3);
    net.add(nn::Dense(6, {.activation = "relu"}), nn::Dense(3));
    net.initialize(gluon::init::Xavier(), device);
    (void)net(pattern_array({4, 5}, 0, device));
    trainer = std::make_unique<Trainer>(net.collect_params(), make());
  }

  Device device() const { return net.collect_params().begin()->second.data().device(); }
  NDArray losses(int batch) const {
    const autograd::RecordScope record;
    return loss(net(pattern_array({4, 5}, batch, device())), pattern_array({4, 3}, batch + 40, device()));
  }
  void poison(const Meeting& one) const {
    if (one.poison == 0)
      return;
    for (const auto& [name, parameter] : net.collect_params()) {
      if (name == one.parameter)
        copy_into(full({1}, one.poison), parameter.grad().reshape({-1}).slice(0, 1, 2));
    }
  }
  void plain(int batch) const {
    losses(batch).backward();
    trainer->step(4);
  }
  void scaled(GradScaler& scaler, const Meeting& one) const {
    scaler.scale(losses(one.batch)).backward();
    poison(one);
    scaler.step(*trainer, 4);
    scaler.update();
  }
  /// By the trainer's own scaler.
  void own(const Meeting& one) const {
    amp::scale_loss(losses(one.batch), *trainer).backward();
    poison(one);
    trainer->step(4);
  }

  /// Parameters, states and steps of each parameter: all but the number of steps that schedules see.
  std::map<std::string, std::vector<float>> all() const {
    std::map<std::string, std::vector<float>> found;
    for (const auto& [name, parameter] : net.collect_params())
      found[name] = values(parameter.data());
    for (const auto& [entry, state] : trainer->optimizer().states())
      found["state " + entry] = values(state);
    found.erase("state num_updates");
    return found;
  }
};

float scale_of(const GradScaler& scaler) {
  return scaler.loss_scale().item<float>();
}

}  // namespace

TEST_CASE("A scaled step is the step without, to the last bit", "[gluon][amp]") {
  for (const auto& [name, make] : optimizers()) {
    CAPTURE(name);
    const Training plain(make), scaled(make), own(make);
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
      const Training never(make), left_out(make);
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
  const Training training(optimizers()["SGD"]);
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
  const std::optional<DType> low = GENERATE(as<std::optional<DType>>{}, std::nullopt, bfloat16, float16);
  for (const auto& [name, make] : optimizers()) {
    CAPTURE(name);
    const Training by_hand(make);
    Training as_graph(make);
    const GradScalerOptions options{.init_scale = 1024, .growth_interval = 2};
    amp::init_trainer(*by_hand.trainer, options);
    amp::init_trainer(*as_graph.trainer, options);
    as_graph.graph = std::make_unique<gluon::TrainStep>(as_graph.net, as_graph.loss, *as_graph.trainer);
    std::vector<float> scales;
    for (const int i : {0, 1, 2, -1, 3, -1, -1, 4, 5, 6}) {
      const std::int64_t samples = i == 4 ? 3 : 4;
      const NDArray x = pattern_array({samples, 5}, i) * (i < 0 ? k_inf : 1.0F),
                    y = pattern_array({samples, 3}, i + 40);
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
    CHECK(as_graph.graph->traced() == 2);  // this loss asks how many samples there are
  }
}

TEST_CASE("A scaled step is traced once for batches of all sizes, and anew for another type", "[gluon][amp][graph]") {
  const Training training(optimizers()["Adam"]);
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

TEST_CASE("A scaler's state and its trainer's go on from a file as if nothing had been", "[gluon][amp]") {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.npz";
  for (const char* const name : {"SGD", "Adam"}) {
    const Make make = optimizers()[name];
    const GradScalerOptions options{.init_scale = 64, .growth_interval = 3};
    Training through(make);
    Training resumed(make);
    amp::init_trainer(*through.trainer, options);
    amp::init_trainer(*resumed.trainer, options);
    for (const Meeting& one : {Meeting{0}, Meeting{1, k_inf}, Meeting{2}, Meeting{3}})
      through.own(one);
    through.trainer->save_states(path);
    through.net.save_parameters(folder / "net.npz");
    resumed.own({7, k_nan});  // what it did before is forgotten
    resumed.own({8});
    resumed.net.load_parameters(folder / "net.npz");
    resumed.trainer->load_states(path);
    CHECK(scale_of(*resumed.trainer->scaler()) == 32);
    CHECK(resumed.trainer->scaler()->clean_steps().item<std::int64_t>() == 2);
    for (const Training* const one : {&through, &resumed}) {
      for (int i = 4; i < 7; ++i)
        one->own({i, i == 5 ? k_inf : 0});
    }
    CHECK((through.all() == resumed.all()));
    CHECK(scale_of(*resumed.trainer->scaler()) == scale_of(*through.trainer->scaler()));
    // A file without a scale leaves it.
    const Training plain(make);
    plain.plain(0);
    plain.trainer->save_states(path);
    const float before = scale_of(*through.trainer->scaler());
    through.trainer->load_states(path);
    CHECK(scale_of(*through.trainer->scaler()) == before);
  }
}

TEST_CASE("States of a scaler that cannot be are refused, and change nothing", "[gluon][amp]") {
  const TemporaryFolder folder;
  const Training training(optimizers()["Adam"]);
  amp::init_trainer(*training.trainer);
  training.own({0});
  const auto before = training.all();
  const GradScaler& scaler = *training.trainer->scaler();
  const GradScaler::States good = scaler.states();
  const auto bad = [&](const std::string& entry, const NDArray& value) {
    GradScaler::States states = good;
    states[entry] = value;
    CHECK_THROWS_AS(scaler.load_states(states), ValueError);
    Optimizer::States all = training.trainer->optimizer().states();
    for (const auto& [name, array] : states)
      all[name] = array;
    all["num_updates"] = array<std::int64_t>({77});
    save(folder / "bad.npz", all);
    CHECK_THROWS_AS(training.trainer->load_states(folder / "bad.npz"), ValueError);
    CHECK(training.trainer->optimizer().num_updates() == 1);
  };
  bad("loss_scale", array<float>({k_nan}));
  bad("loss_scale", array<float>({k_inf}));
  bad("loss_scale", array<float>({0}));
  bad("loss_scale", array<float>({-2}));
  bad("loss_scale", array<float>({4, 4}));
  bad("loss_scale", array<double>({4}));
  bad("loss_scale", zeros({0}));
  bad("clean_steps", array<std::int64_t>({-1}));
  bad("clean_steps", array<float>({1}));
  GradScaler::States lacking = good;
  lacking.erase("clean_steps");
  CHECK_THROWS_WITH(scaler.load_states(lacking), Catch::Matchers::Contains("clean_steps"));
  CHECK(scale_of(scaler) == 65536);
  CHECK((training.all() == before));
}

TEST_CASE("Gradients are unscaled for who looks at them, once a step", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const Training plain(make), scaled(make), own(make);
  GradScaler scaler;
  amp::init_trainer(*own.trainer);
  plain.losses(0).backward();
  scaler.scale(scaled.losses(0)).backward();
  amp::scale_loss(own.losses(0), *own.trainer).backward();
  scaler.unscale(*scaled.trainer);
  amp::unscale(*own.trainer);
  for (const auto& [name, parameter] : plain.net.collect_params()) {
    for (const Training* const one : {&scaled, &own}) {
      for (const auto& [same, other] : one->net.collect_params()) {
        if (same == name)
          CHECK(values(other.grad()) == values(parameter.grad()));
      }
    }
  }
  CHECK_THROWS_AS(scaler.unscale(*scaled.trainer), ValueError);
  CHECK_THROWS_AS(amp::unscale(*own.trainer), ValueError);
  plain.trainer->step(4);
  scaler.step(*scaled.trainer, 4);
  scaler.update();
  own.trainer->step(4);
  for (int i = 1; i < 3; ++i) {
    plain.plain(i);
    scaled.scaled(scaler, {i});
    own.own({i});
  }
  CHECK((scaled.all() == plain.all()));
  CHECK((own.all() == plain.all()));
  // What is unscaled is looked at all the same.
  scaler.scale(scaled.losses(3)).backward();
  scaler.unscale(*scaled.trainer);
  scaled.poison({3, k_inf});
  const auto before = scaled.all();
  scaler.step(*scaled.trainer, 4);
  scaler.update();
  CHECK((scaled.all() == before));
  CHECK(scale_of(scaler) == 32768);
}

TEST_CASE("Gradients of scaled losses are clipped by the norm that they have without", "[gluon][amp]") {
  const Make make = optimizers()["SGD"];
  const Training plain(make), own(make);
  plain.trainer->guard_gradients({.max_norm = 0.05});
  own.trainer->guard_gradients({.max_norm = 0.05});
  amp::init_trainer(*own.trainer);
  for (int i = 0; i < 3; ++i) {
    plain.plain(i);
    own.own({i});
    CHECK(values(own.trainer->optimizer().last_guard()) == values(plain.trainer->optimizer().last_guard()));
    CHECK(values(own.trainer->optimizer().last_guard())[1] < 1);
  }
  CHECK((own.all() == plain.all()));
}

TEST_CASE("Trainers that share a scaler step together, and the scale follows the worst", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const Training good(make), bad(make);
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
  CHECK_THROWS_WITH(scaler.step(*good.trainer, 4), Catch::Matchers::Contains("update()"));
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

TEST_CASE("Parameters that are frozen meanwhile are not counted, whoever overflows", "[gluon][amp]") {
  for (const bool as_graph : {false, true}) {
    const Make make = optimizers()["AdamW"];
    Training never(make), left_out(make);
    for (Training* const one : {&never, &left_out}) {
      amp::init_trainer(*one->trainer);
      if (as_graph)
        one->graph = std::make_unique<gluon::TrainStep>(one->net, one->loss, *one->trainer);
    }
    const auto step = [&](const Training& one, int i, bool overflows) {
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
      for (const Training* const one : {&never, &left_out}) {
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

TEST_CASE("A scaler that is not enabled changes nothing", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const Training plain(make), scaled(make), own(make);
  GradScaler scaler({.enabled = false});
  amp::init_trainer(*own.trainer, {.enabled = false});
  const NDArray loss = plain.losses(0);
  CHECK(scaler.scale(loss).same(loss));
  for (int i = 0; i < 3; ++i) {
    plain.plain(i);
    scaler.unscale(*scaled.trainer);
    scaled.scaled(scaler, {i});
    own.own({i});
  }
  CHECK((scaled.all() == plain.all()));
  CHECK((own.all() == plain.all()));
  CHECK(scale_of(scaler) == 65536);
  CHECK_FALSE(scaled.trainer->optimizer().last_guard().defined());
}

TEST_CASE("Scalers refuse what cannot be", "[gluon][amp]") {
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = k_nan}), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = 2e8}), ValueError);
  CHECK_NOTHROW(GradScaler({.init_scale = 16777216}));
  CHECK_THROWS_AS(GradScaler({.max_scale = k_inf}), ValueError);
  CHECK_THROWS_AS(GradScaler({.min_scale = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_factor = 0.99}), ValueError);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1.01}), ValueError);
  CHECK_THROWS_WITH(GradScaler({.growth_interval = 0}), Catch::Matchers::Contains("growth_interval is 0"));
  GradScaler scaler;
  CHECK_THROWS_AS(scaler.scale(NDArray()), ValueError);
  CHECK_THROWS_AS(scaler.scale(zeros({2}, {.dtype = int32})), ValueError);
  CHECK_THROWS_AS(scaler.set_loss_scale(-1), ValueError);
  scaler.set_loss_scale(512);
  CHECK(scale_of(scaler) == 512);
  CHECK(scaler.scale(ones({2}, {.dtype = float16})).dtype() == float32);
  CHECK(values(scaler.scale(full({1}, 300, {.dtype = float16}))) == std::vector<float>{153600});
  CHECK(scaler.scale(ones({2}, {.dtype = float64})).dtype() == float64);
  const Training training(optimizers()["SGD"]);
  CHECK_THROWS_WITH(amp::scale_loss(ones({1}), *training.trainer), Catch::Matchers::Contains("init_trainer"));
  CHECK_THROWS_AS(amp::unscale(*training.trainer), ValueError);
  CHECK_THROWS_AS(scaler.step(*training.trainer, 4), ValueError);  // no gradient is fresh
  scaler.scale(training.losses(0)).backward();
  CHECK_THROWS_AS(scaler.step(*training.trainer, 0), ValueError);
  scaler.step(*training.trainer, 4);
  scaler.update();
  amp::init_trainer(*training.trainer, scaler);
  CHECK_THROWS_AS(amp::init_trainer(*training.trainer), ValueError);
  CHECK_THROWS_AS(amp::init_trainer(*training.trainer, scaler), ValueError);
  training.own({1});
  GradScaler other;
  CHECK_THROWS_AS(other.unscale(*training.trainer), ValueError);
  other.scale(training.losses(2)).backward();
  CHECK_THROWS_AS(other.step(*training.trainer, 4), ValueError);
  amp::scale_loss(training.losses(2), *training.trainer).backward();
  scaler.step(*training.trainer, 4);  // its own, which updates by itself
  scaler.update();
  CHECK(scaler.clean_steps().item<std::int64_t>() == 3);
}
