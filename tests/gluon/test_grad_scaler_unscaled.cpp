// amp::GradScaler: gradients that were unscaled, and steps that are left out after a look at them.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/amp/grad_scaler.h>

#include "tests/gluon/scaled_training.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void set_grad_req(const ScaledTraining& one, GradReq req) {
  for (const auto& [name, parameter] : one.net.collect_params())
    parameter.set_grad_req(req);
}

void zero_grad(const ScaledTraining& one) {
  for (const auto& [name, parameter] : one.net.collect_params())
    parameter.zero_grad();
}

void multiply_gradients(const ScaledTraining& one, double factor) {
  for (const auto& [name, parameter] : one.net.collect_params())
    copy_into(parameter.grad() * factor, parameter.grad());
}

/// A training, its scaler and how it steps: by a scaler of its own or by one beside it.
struct Unscaling {
  ScaledTraining training;
  std::shared_ptr<GradScaler> scaler = std::make_shared<GradScaler>();
  bool own;

  Unscaling(const Make& make, bool own) : training(make), own(own) {
    if (own)
      amp::init_trainer(*training.trainer, *scaler);
  }
  void backward(int batch) const { scaler->scale(training.losses(batch)).backward(); }
  void unscale() const { scaler->unscale(*training.trainer); }
  void step() const {
    if (own)
      return training.trainer->step(4);
    scaler->step(*training.trainer, 4);
    scaler->update();
  }
};

}  // namespace

TEST_CASE("A step that is left out after its gradients were unscaled leaves the next one right", "[gluon][amp]") {
  const Make make = optimizers()["SGD"];
  for (const bool own : {false, true}) {
    for (const GradReq req : {GradReq::write, GradReq::add}) {
      CAPTURE(own, req == GradReq::add);
      const ScaledTraining plain(make);
      const Unscaling scaled(make, own);
      set_grad_req(scaled.training, req);
      scaled.backward(7);
      scaled.unscale();
      if (req == GradReq::add)
        zero_grad(scaled.training);
      else
        scaled.scaler->update();  // nothing stepped
      for (int i = 0; i < 2; ++i) {
        plain.plain(i);
        scaled.backward(i);
        scaled.step();
        zero_grad(scaled.training);
        CHECK((scaled.training.all() == plain.all()));
      }
      scaled.backward(2);
      scaled.unscale();
      scaled.backward(3);
      if (req == GradReq::add) {
        CHECK_THROWS_WITH(scaled.step(), sluice::test::contains("added to the gradient of '0.weight'"));
        CHECK_THROWS_AS(scaled.unscale(), ValueError);
        zero_grad(scaled.training);
        scaled.backward(3);
      }
      scaled.unscale();
      scaled.scaler->update();
      scaled.step();  // of the same gradients all the same
      plain.plain(3);
      CHECK((scaled.training.all() == plain.all()));
    }
  }
}

TEST_CASE("Unscaled gradients stay so while they are clipped and others are computed", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  for (const bool own : {false, true}) {
    const ScaledTraining plain(make), other(make);
    const Unscaling scaled(make, own);
    plain.losses(0).backward();
    multiply_gradients(plain, 0.25);
    plain.trainer->step(4);
    scaled.backward(0);
    scaled.unscale();
    multiply_gradients(scaled.training, 0.25);
    scaled.scaler->scale(other.losses(1)).backward();
    scaled.step();
    CHECK((scaled.training.all() == plain.all()));
  }
}

TEST_CASE("A step as a graph divides its own gradients, whatever was unscaled before", "[gluon][amp][graph]") {
  const Make make = optimizers()["SGD"];
  const ScaledTraining plain(make);
  const Unscaling scaled(make, true);
  gluon::TrainStep graph(scaled.training.net, scaled.training.loss, *scaled.training.trainer);
  for (int i = 0; i < 3; ++i) {
    scaled.backward(i + 7);
    scaled.unscale();
    graph(pattern_array({4, 5}, i), pattern_array({4, 3}, i + 40));
    plain.plain(i);
    CHECK((scaled.training.all() == plain.all()));
  }
  scaled.backward(3);
  scaled.step();
  plain.plain(3);
  CHECK((scaled.training.all() == plain.all()));
}

TEST_CASE("A step in two halves by hand does not divide again what was unscaled", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  for (const bool taken : {false, true}) {
    CAPTURE(taken);
    const ScaledTraining plain(make);
    const Unscaling scaled(make, true);
    RunningSink sink;
    for (int i = 0; i < 4; ++i) {
      plain.plain(i);
      scaled.backward(i);
      Trainer& trainer = *scaled.training.trainer;
      trainer.prepare_step(4);
      {
        const CallSinkScope scope(taken ? &sink : nullptr);
        if (i % 2 == 0)
          scaled.unscale();
        trainer.apply_step();
      }
      CHECK((scaled.training.all() == plain.all()));
    }
    CHECK(scaled.scaler->clean_steps().item<std::int64_t>() == 4);
  }
}

TEST_CASE("A step in two halves refuses gradients that were added to after they were unscaled", "[gluon][amp]") {
  const Unscaling scaled(optimizers()["SGD"], true);
  set_grad_req(scaled.training, GradReq::add);
  scaled.backward(0);
  scaled.unscale();
  scaled.backward(1);
  scaled.training.trainer->prepare_step(4);
  const auto before = scaled.training.all();
  CHECK_THROWS_WITH(scaled.training.trainer->apply_step(), sluice::test::contains("added to the gradient of"));
  CHECK((scaled.training.all() == before));
}

TEST_CASE("Gradients of float16 are not unscaled in place, where they would be 0", "[gluon][amp]") {
  gluon::nn::Dense first(2, {.in_units = 3}), second(1, {.in_units = 2});
  gluon::ParameterDict both;
  for (gluon::nn::Dense* const layer : {&first, &second}) {
    layer->initialize(gluon::init::One());
    for (const auto& [name, parameter] : layer->collect_params())
      both.insert((layer == &first ? "first." : "second.") + name, parameter);
  }
  for (const auto& [name, parameter] : second.collect_params())
    parameter.cast(float16);
  Trainer trainer(both, gluon::optimizer::SGD({.learning_rate = 1e7, .multi_precision = true}));
  const GradScaler scaler({.init_scale = 1024});
  amp::init_trainer(trainer, scaler);
  {
    const autograd::RecordScope record;
    const NDArray middle = first(full({1, 3}, 1)).astype(float16);
    scaler.scale(second(middle).astype(float32) * 1e-9).backward();
  }
  const auto all = [&] {
    std::map<std::string, std::vector<float>> found;
    for (const auto& [name, parameter] : both) {
      found[name] = values(parameter.data());
      found[name + " gradient"] = values(parameter.grad());
    }
    return found;
  };
  auto before = all();
  CHECK(before["second.bias gradient"][0] > 0);
  CHECK_THROWS_AS(scaler.unscale(trainer), DTypeError);
  CHECK_THROWS_WITH(scaler.unscale(trainer), sluice::test::contains("'second.weight' is float16"));
  CHECK((all() == before));
  trainer.step(1);
  CHECK(all()["second.bias"][0] < before["second.bias"][0]);
  CHECK(scaler.clean_steps().item<std::int64_t>() == 1);
}

TEST_CASE("A step divides what backward computed since the others were unscaled", "[gluon][amp]") {
  const Make make = optimizers()["Adam"];
  for (const std::string way : {"own", "beside", "unscaled twice"}) {
    CAPTURE(way);
    const ScaledTraining plain(make), first(make), second(make);
    gluon::ParameterDict both;
    for (const auto& [name, parameter] : first.net.collect_params())
      both.insert("first." + name, parameter);
    for (const auto& [name, parameter] : second.net.collect_params())
      both.insert("second." + name, parameter);
    Trainer trainer(both, make());
    GradScaler scaler;
    if (way == "own")
      amp::init_trainer(trainer, scaler);
    plain.plain(0);
    scaler.scale(first.losses(0)).backward();
    scaler.unscale(trainer);
    scaler.scale(second.losses(0)).backward();
    if (way == "unscaled twice") {
      scaler.unscale(trainer);
      CHECK_THROWS_AS(scaler.unscale(trainer), ValueError);
    }
    CHECK_THROWS_AS(scaler.step(trainer, 0), ValueError);  // changes nothing
    scaler.step(trainer, 4);
    scaler.update();
    for (const auto& [name, parameter] : plain.net.collect_params()) {
      CHECK(values(both.find("first." + name)->data()) == values(parameter.data()));
      CHECK(values(both.find("second." + name)->data()) == values(parameter.data()));
    }
  }
}
