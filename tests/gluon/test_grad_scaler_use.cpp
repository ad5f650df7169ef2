// amp::GradScaler: its state in files, gradients that are unscaled before a step, and what is refused.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/operator/autocast.h>
#include <sluice/storage/storage.h>

#include "tests/gluon/scaled_training.h"

using namespace sluice;
using namespace sluice::test;
using amp::GradScalerOptions;

TEST_CASE("A scaler's state and its trainer's go on from a file as if nothing had been", "[gluon][amp]") {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.npz";
  for (const char* const name : {"SGD", "Adam"}) {
    const Make make = optimizers()[name];
    const GradScalerOptions options{.init_scale = 64, .growth_interval = 3};
    ScaledTraining through(make);
    ScaledTraining resumed(make);
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
    for (const ScaledTraining* const one : {&through, &resumed}) {
      for (int i = 4; i < 7; ++i)
        one->own({i, i == 5 ? k_inf : 0});
    }
    CHECK((through.all() == resumed.all()));
    CHECK(scale_of(*resumed.trainer->scaler()) == scale_of(*through.trainer->scaler()));
    // A file without a scale leaves it.
    const ScaledTraining plain(make);
    plain.plain(0);
    plain.trainer->save_states(path);
    const float before = scale_of(*through.trainer->scaler());
    through.trainer->load_states(path);
    CHECK(scale_of(*through.trainer->scaler()) == before);
  }
}

TEST_CASE("States of a scaler that cannot be are refused, and change nothing", "[gluon][amp]") {
  const TemporaryFolder folder;
  const ScaledTraining training(optimizers()["Adam"]);
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
  CHECK_THROWS_WITH(scaler.load_states(lacking), sluice::test::contains("clean_steps"));
  CHECK(scale_of(scaler) == 65536);
  CHECK((training.all() == before));
}

TEST_CASE("A scale at bounds that are no float32 goes on from its own state", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["SGD"]);
  for (const double bound : {0.01, 0.3, 0.7, 1e-30, 1e30 / 3}) {
    CAPTURE(bound);
    GradScaler least({.init_scale = bound, .max_scale = 3e38, .min_scale = bound});
    GradScaler most(
        {.init_scale = bound, .growth_factor = 3, .growth_interval = 1, .max_scale = bound, .min_scale = 1e-30});
    training.scaled(least, {0, k_inf});
    training.scaled(most, {0});
    for (GradScaler* const one : {&least, &most}) {
      CHECK(scale_of(*one) == static_cast<float>(bound));
      CHECK_NOTHROW(one->load_states(one->states()));
      CHECK_NOTHROW(one->set_loss_scale(bound));
    }
    CHECK_THROWS_AS(least.set_loss_scale(std::nextafter(static_cast<float>(bound), 0.0F)), ValueError);
    CHECK_THROWS_AS(most.set_loss_scale(std::nextafter(static_cast<float>(bound), k_inf)), ValueError);
  }
  CHECK_THROWS_AS(GradScaler({.min_scale = 1e-60}), ValueError);  // 0 and inf as float32
  CHECK_THROWS_AS(GradScaler({.max_scale = 1e60}), ValueError);
}

TEST_CASE("Gradients are unscaled for who looks at them, once a step", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const ScaledTraining plain(make), scaled(make), own(make);
  GradScaler scaler;
  amp::init_trainer(*own.trainer);
  plain.losses(0).backward();
  scaler.scale(scaled.losses(0)).backward();
  amp::scale_loss(own.losses(0), *own.trainer).backward();
  scaler.unscale(*scaled.trainer);
  amp::unscale(*own.trainer);
  for (const auto& [name, parameter] : plain.net.collect_params()) {
    for (const ScaledTraining* const one : {&scaled, &own}) {
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
  const ScaledTraining plain(make), own(make);
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

TEST_CASE("A scaler that is not enabled changes nothing", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  const ScaledTraining plain(make), scaled(make), own(make);
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
  CHECK_THROWS_WITH(GradScaler({.growth_interval = 0}), sluice::test::contains("growth_interval is 0"));
  GradScaler scaler;
  CHECK_THROWS_AS(scaler.scale(NDArray()), ValueError);
  CHECK_THROWS_AS(scaler.scale(zeros({2}, {.dtype = int32})), ValueError);
  CHECK_THROWS_AS(scaler.set_loss_scale(-1), ValueError);
  scaler.set_loss_scale(512);
  CHECK(scale_of(scaler) == 512);
  CHECK(scaler.scale(ones({2}, {.dtype = float16})).dtype() == float32);
  CHECK(values(scaler.scale(full({1}, 300, {.dtype = float16}))) == std::vector<float>{153600});
  CHECK(scaler.scale(ones({2}, {.dtype = float64})).dtype() == float64);
  const ScaledTraining training(optimizers()["SGD"]);
  CHECK_THROWS_WITH(amp::scale_loss(ones({1}), *training.trainer), sluice::test::contains("init_trainer"));
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

// Of experts, say, of which each batch asks some.
TEST_CASE("Scaled steps of ever other parameters take no more memory", "[gluon][amp]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  std::vector<Parameter> all;
  ParameterDict dict;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back("weight", gluon::ParameterOptions{.shape = {2}});
    all.back().set_data(ones({2}));
    dict.insert(message(i), all.back());
  }
  Trainer trainer(dict, Adam());
  amp::init_trainer(trainer);
  const auto bytes_after = [&](unsigned first, unsigned last) {
    for (unsigned some = first; some <= last; ++some) {
      NDArray loss = zeros({});
      {
        const autograd::RecordScope record;
        for (unsigned i = 0; i < 8; ++i)
          loss = (some >> i & 1) != 0 ? loss + sum(all[i].data()) : loss;
      }
      amp::scale_loss(loss, trainer).backward();
      trainer.step(1, true);
    }
    engine.wait_all();
    return Storage::of(engine).pool(cpu()).stats().active;
  };
  const std::size_t before = bytes_after(128, 191);  // in which all have come
  CHECK(bytes_after(192, 255) <= before + 2048);
  CHECK(bytes_after(1, 127) <= before + 2048);
}
