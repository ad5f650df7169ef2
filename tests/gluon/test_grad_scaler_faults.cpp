// amp::GradScaler when batches fail and memory runs out: what a step did not do, it may do later.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/update/loss_scale.h>
#include <sluice/storage/storage.h>

#include "tests/gluon/scaled_training.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int k_ways = 3;  // by hand, by the trainer's own scaler, as a graph

/// A training that scales in one of these ways.
struct Scaled {
  ScaledTraining training;
  GradScaler scaler{{.init_scale = 8, .growth_interval = 3}};
  int way;

  explicit Scaled(int of, Device device = cpu()) : training(optimizers()["Adam"], device), way(of) {
    if (way > 0)
      amp::init_trainer(*training.trainer, scaler);
    if (way == 2)
      training.graph = std::make_unique<gluon::TrainStep>(training.net, training.loss, *training.trainer);
  }
  NDArray label(int i) const { return pattern_array({4, 3}, i + 40, training.device()); }
  void step(const NDArray& x, int i) {
    if (way == 2) {
      (*training.graph)(x, label(i)).losses.wait_to_read();
      return;
    }
    NDArray losses;
    {
      const autograd::RecordScope record;
      losses = training.loss(training.net(x), label(i));
    }
    scaler.scale(losses).backward();
    if (way == 1)
      return training.trainer->step(4);
    scaler.step(*training.trainer, 4);
    scaler.update();
  }
  void step(int i) { step(pattern_array({4, 5}, i, training.device()), i); }
  std::map<std::string, std::vector<float>> all() const {
    auto found = training.all();
    found["scale"] = values(scaler.loss_scale());
    found["clean"] = values(scaler.clean_steps().astype(float32));
    return found;
  }
};

NDArray failed_batch(Device device) {
  NDArray x = ones({4, 5}, {.device = device});
  Engine::current().push(
      {.name = "bad batch", .device = device, .access = {write(x.object()->buffer->var())}},
      [](Queue) { throw std::runtime_error("sample 3 cannot be read"); });
  return x;
}

// Decision 5: weights, states, scale and counts are those of the last good step once the error is forgiven.
void check_failed_batches(Device device) {
  for (int way = 0; way < k_ways; ++way) {
    CAPTURE(way);
    Scaled never(way, device), failed(way, device);
    for (int i = 0; i < 7; ++i) {
      if (i == 2 || i == 3) {
        bool threw = false;
        try {
          failed.step(failed_batch(device), i);
          failed.all();
        } catch (const Error& error) {
          threw = true;
          Engine::current().forgive(error);
        }
        CHECK(threw);
      }
      never.step(i);
      failed.step(i);
      CHECK((failed.all() == never.all()));
    }
    CHECK(scale_of(failed.scaler) == 32);
    CHECK_NOTHROW(failed.training.trainer->states());
    try {
      Engine::current().wait_all();
    } catch (const Error&) {  // what was forgiven
    }
  }
}

// One after the other each allocation of a step's own fails: the step then was not made, and can be made again.
void check_scarce_steps(Device device) {
  Engine engine({.seed = 3});
  const EngineScope here(engine);
  Storage::of(engine).configure({.host = "direct", .device = "direct"});
  Pool& pool = Storage::of(engine).pool(device);
  Scaled never(0, device), scarce(0, device);
  int failures = 0;
  for (int i = 0; i < 3; ++i) {
    if (i == 2) {  // another set of parameters, in another place of the counts
      for (const Scaled* const one : {&never, &scarce})
        one->training.net.collect_params()["0.weight"].set_grad_req(GradReq::null);
    }
    for (Scaled* const one : {&never, &scarce})
      one->scaler.scale(one->training.losses(i)).backward();
    never.scaler.step(*never.training.trainer, 4);
    never.scaler.update();
    engine.wait_all();
    const std::size_t before = pool.stats().active;  // what is given back may wait for the GPU
    bool stepped = false, updated = false;
    for (std::size_t more = 1; !updated; more += 256) {
      REQUIRE(more < 1 << 16);
      pool.set_limit(before + more);
      try {
        if (!stepped)
          scarce.scaler.step(*scarce.training.trainer, 4);
        stepped = true;
        scarce.scaler.update();
        updated = true;
      } catch (const OutOfMemory&) {
        ++failures;
      }
      pool.set_limit(0);
      CHECK_NOTHROW(scarce.training.trainer->states());
      engine.wait_all();
    }
    CHECK((scarce.all() == never.all()));
  }
  CHECK(failures > 3);
}

}  // namespace

TEST_CASE("Training of scaled losses goes on after a batch that failed", "[gluon][amp]") {
  check_failed_batches(cpu());
}
TEST_CASE("Training of scaled losses on a GPU goes on after a batch that failed", "[gluon][amp][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_failed_batches(gpu());
}

TEST_CASE("A scaled step that gets no memory is not made by halves", "[gluon][amp]") {
  check_scarce_steps(cpu());
}
TEST_CASE("A scaled step that gets no memory on a GPU is not made by halves", "[gluon][amp][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_scarce_steps(gpu());
}

TEST_CASE("A scaled step that gets no memory leaves the trainer's own steps without a scale", "[gluon][amp]") {
  Engine engine({.seed = 3});
  const EngineScope here(engine);
  Storage::of(engine).configure({.host = "direct"});
  Pool& pool = Storage::of(engine).pool(cpu());
  const Make make = optimizers()["SGD"];
  int failures = 0;
  bool stepped = false;
  for (std::size_t more = 1; !stepped; more += 256) {
    REQUIRE(more < 1 << 16);
    const ScaledTraining plain(make), scarce(make);
    GradScaler scaler;
    scaler.scale(scarce.losses(0)).backward();
    engine.wait_all();
    pool.set_limit(pool.stats().active + more);
    try {
      scaler.step(*scarce.trainer, 4);
      stepped = true;
    } catch (const OutOfMemory&) {
      ++failures;
    }
    pool.set_limit(0);
    if (stepped)
      break;
    plain.plain(1);
    scarce.plain(1);
    CHECK((scarce.all() == plain.all()));
  }
  CHECK(failures > 1);
}

TEST_CASE("Which parameters a step counts is told the device once", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["Adam"]);
  GradScaler scaler;
  training.scaled(scaler, {0});
  auto all = training.net.collect_params();
  all["0.weight"].set_grad_req(GradReq::null);
  std::vector<gluon::ParameterDict::Entry> others;
  std::vector<double> mask;
  for (const auto& entry : all) {
    mask.push_back(entry.first == "0.weight" ? 0 : 1);
    if (mask.back() == 1)
      others.push_back(entry);
  }
  const auto kept = [&] {
    std::vector<const void*> objects;
    for (const NDArray& array : training.trainer->optimizer().step_arrays(others))
      objects.push_back(array.object());
    return objects;
  };
  training.scaled(scaler, {1});
  const std::vector<const void*> after_one = kept();
  training.scaled(scaler, {2});
  training.scaled(scaler, {3});
  CHECK(kept() == after_one);
  const auto chosen = [&](const NDArray& array) {
    return array.dtype() == float64 && array.to_vector<double>() == mask;
  };
  const std::vector<NDArray> arrays = training.trainer->optimizer().step_arrays(others);
  CHECK(std::count_if(arrays.begin(), arrays.end(), chosen) == 1);
  const auto states = training.trainer->states();
  CHECK(values(states.at("0.weight.num_updates")) == std::vector<float>{1});
  CHECK(values(states.at("1.weight.num_updates")) == std::vector<float>{4});
}

TEST_CASE("Parameters that come to be counted later change what steps of others count", "[gluon][amp]") {
  const ScaledTraining training(optimizers()["Adam"]);
  GradScaler scaler;
  auto all = training.net.collect_params();
  const auto step_without = [&](const std::vector<std::string>& frozen) {
    for (const auto& [name, parameter] : all)
      all[name].set_grad_req(GradReq::write);
    for (const std::string& name : frozen)
      all[name].set_grad_req(GradReq::null);
    training.scaled(scaler, {0, 0});
  };
  const auto counts = [&] {
    std::map<std::string, float> found;
    const auto states = training.trainer->optimizer().states();
    for (const auto& [name, parameter] : all) {
      const auto count = states.find(name + ".num_updates");
      found[name] = count == states.end() ? 0 : values(count->second)[0];
    }
    return found;
  };
  using Counts = std::map<std::string, float>;
  step_without({"0.weight"});
  step_without({"0.weight", "1.weight"});
  CHECK(counts() == Counts{{"0.weight", 0}, {"0.bias", 2}, {"1.weight", 1}, {"1.bias", 2}});
  step_without({});
  step_without({"0.weight", "1.weight"});
  CHECK(counts() == Counts{{"0.weight", 1}, {"0.bias", 4}, {"1.weight", 2}, {"1.bias", 4}});
  training.trainer->optimizer().load_states(training.trainer->optimizer().states());
  step_without({"1.weight"});  // in another order than before
  step_without({});
  step_without({"0.weight", "1.weight"});
  CHECK(counts() == Counts{{"0.weight", 3}, {"0.bias", 7}, {"1.weight", 3}, {"1.bias", 7}});
}

TEST_CASE("A scale is moved to a GPU with its count, or stays", "[gluon][amp][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  const EngineScope here(engine);
  Storage::of(engine).configure({.device = "direct"});
  Pool& pool = Storage::of(engine).pool(gpu());
  const NDArray loss = ones({1}, {.device = gpu()});
  GradScaler scaler;
  engine.wait_all();
  const std::size_t before = pool.stats().active;  // what is given back may wait for the GPU
  bool moved = false;
  int failures = 0;
  for (std::size_t more = 1; !moved; more += 256) {
    REQUIRE(more < 1 << 14);
    pool.set_limit(before + more);
    try {
      scaler.scale(loss);
      moved = true;
    } catch (const OutOfMemory&) {
      ++failures;
    }
    pool.set_limit(0);
    CHECK(scaler.loss_scale().device() == scaler.clean_steps().device());
    engine.wait_all();
  }
  CHECK(failures > 2);
}

TEST_CASE("A step of the trainer's own between a scaled one and update() changes no scale", "[gluon][amp]") {
  for (const bool bad_first : {true, false}) {
    const ScaledTraining training(optimizers()["SGD"]);
    training.trainer->guard_gradients({.skip_non_finite = true});
    GradScaler scaler;
    scaler.scale(training.losses(0)).backward();
    training.poison({0, bad_first ? k_inf : 0});
    scaler.step(*training.trainer, 4);
    training.losses(1).backward();
    training.poison({0, bad_first ? 0 : k_inf});
    training.trainer->step(4);
    scaler.update();
    CHECK(scale_of(scaler) == (bad_first ? 32768 : 65536));
  }
}

TEST_CASE("A scale by which float32 cannot be divided is refused", "[gluon][amp]") {
  constexpr double least = 0x1p-126;
  CHECK_THROWS_WITH(
      GradScaler({.init_scale = 1e-40, .min_scale = 1e-42}), sluice::test::contains("min_scale = 1.00053e-42"));
  CHECK_THROWS_AS(GradScaler({.init_scale = 1, .min_scale = least * 0.999}), ValueError);
  const ScaledTraining training(optimizers()["SGD"]);
  GradScaler scaler({.init_scale = least, .min_scale = least});
  training.scaled(scaler, {0});
  for (const auto& [name, array] : training.all()) {
    for (const float value : array)
      CHECK(std::isfinite(value));
  }
  CHECK_THROWS_AS(scaler.set_loss_scale(least / 2), ValueError);
}

TEST_CASE("loss_scale_update takes one scale, one count and a guard", "[gluon][amp]") {
  using sluice::detail::loss_scale_update;
  const NDArray scale = full({}, 4), clean = zeros({}, {.dtype = int64}), guard = ones({3}, {.dtype = float64});
  CHECK_THROWS_AS(loss_scale_update(ones({2}), clean, guard, {}), ShapeError);
  CHECK_THROWS_AS(loss_scale_update(scale, zeros({0}, {.dtype = int64}), guard, {}), ShapeError);
  CHECK_THROWS_AS(loss_scale_update(scale, scale, guard, {}), DTypeError);
  CHECK_THROWS_AS(loss_scale_update(scale, clean, ones({3}), {}), DTypeError);
  CHECK_THROWS_AS(loss_scale_update(scale, clean, ones({2}, {.dtype = float64}), {}), ShapeError);
  CHECK_THROWS_AS(loss_scale_update(scale, clean, guard, {.growth_interval = 0}), ValueError);
  const NDArray strided = array<double>({1, 5, 1, 5, 0, 5}, {3, 2}).slice(1, 0, 1).reshape({3});
  loss_scale_update(scale, clean, guard, {.max_scale = 5, .growth_interval = 1});
  CHECK(scale.item<float>() == 5);
  loss_scale_update(scale, clean, strided, {.backoff_factor = 0.5, .min_scale = 3});
  CHECK(scale.item<float>() == 3);
  CHECK(clean.item<std::int64_t>() == 0);
}
