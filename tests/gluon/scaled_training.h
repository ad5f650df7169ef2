#pragma once

// A small network whose losses are scaled, for the tests of amp::GradScaler.
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/amp/grad_scaler.h>

#include "tests/gluon/support.h"

namespace sluice::test {

using amp::GradScaler;

inline constexpr float k_inf = std::numeric_limits<float>::infinity(), k_nan = std::numeric_limits<float>::quiet_NaN();

using Make = std::function<std::unique_ptr<Optimizer>()>;

// Those that count steps, and some that do not.
inline std::map<std::string, Make> optimizers() {
  using namespace gluon::optimizer;
  return {
      {"SGD", [] { return std::make_unique<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9}); }},
      {"Adam", [] { return std::make_unique<Adam>(AdamOptions{.learning_rate = 0.02}); }},
      {"AdamW", [] { return std::make_unique<AdamW>(AdamWOptions{.learning_rate = 0.02}); }},
      {"AdaBelief", [] { return std::make_unique<AdaBelief>(AdaBeliefOptions{.learning_rate = 0.02}); }},
      {"GroupAdaGrad", [] { return std::make_unique<GroupAdaGrad>(GroupAdaGradOptions{.learning_rate = 0.1}); }},
      {"LANS", [] { return std::make_unique<LANS>(LANSOptions{.learning_rate = 0.02, .wd = 0.01}); }},
      {"LBSGD",
       [] {
         return std::make_unique<LBSGD>(
             LBSGDOptions{.momentum = 0.9, .warmup_epochs = 2, .batch_scale = 3, .updates_per_epoch = 4});
       }},
      {"LBSGD by norms",
       [] {
         return std::make_unique<LBSGD>(
             LBSGDOptions{.warmup_strategy = LargeBatchWarmup::lars, .batch_scale = 2, .begin_epoch = 1});
       }},
      {"Adamax", [] { return std::make_unique<Adamax>(AdamaxOptions{.learning_rate = 0.02}); }},
      {"Nadam", [] { return std::make_unique<Nadam>(NadamOptions{.learning_rate = 0.02}); }},
      {"Nadam of one momentum", [] { return std::make_unique<Nadam>(NadamOptions{.schedule_decay = 0}); }},
      {"FTML", [] { return std::make_unique<FTML>(FTMLOptions{.learning_rate = 0.02}); }},
      {"DCASGD", [] { return std::make_unique<DCASGD>(DCASGDOptions{.learning_rate = 0.1, .momentum = 0.9}); }},
      {"LAMB", [] { return std::make_unique<LAMB>(LAMBOptions{.learning_rate = 0.02, .wd = 0.01}); }},
      {"LAMB plain", [] { return std::make_unique<LAMB>(LAMBOptions{.bias_correction = false}); }},
      {"Adafactor", [] { return std::make_unique<Adafactor>(AdafactorOptions{.learning_rate = 0.5}); }},
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
struct ScaledTraining {
  gluon::nn::Sequential net;
  std::unique_ptr<Trainer> trainer;
  L2Loss loss;
  std::unique_ptr<gluon::TrainStep> graph;

  explicit ScaledTraining(const Make& make, Device device = cpu()) {
    Engine::current().seed(3);
    net.add(gluon::nn::Dense(6, {.activation = "relu"}), gluon::nn::Dense(3));
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

inline float scale_of(const GradScaler& scaler) {
  return scaler.loss_scale().item<float>();
}

}  // namespace sluice::test
