// Schedules beside what MXNet 1.9.1 and PyTorch give for the same options, and trainers that follow them.
#include <cmath>
#include <stdexcept>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::lr_scheduler;

namespace {

const std::vector<std::int64_t> k_steps = {1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 15, 20, 21, 25, 30, 31, 40};

void check_rates(const Schedule& schedule, const std::vector<double>& wanted) {
  REQUIRE(wanted.size() == k_steps.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(k_steps[i]);
    CHECK(schedule(k_steps[i]) == Approx(wanted[i]).epsilon(1e-8));
  }
}

struct Trained {
  Trained() {
    weight.set_data(ones({1}, {.dtype = float64}));
    dict.insert("weight", weight);
  }
  double step(Trainer& trainer) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(weight.data());
    }
    loss.backward();
    const double before = weight.data().item<double>();
    trainer.step(1);
    return before - weight.data().item<double>();  // the rate, the gradient being 1
  }

  Parameter weight{"weight", {.shape = {1}, .dtype = float64}};
  ParameterDict dict;
};

}  // namespace

TEST_CASE("Schedules give what MXNet's give", "[gluon][lr_scheduler]") {
  check_rates(
      FactorScheduler(
          {.step = 5, .factor = 0.5, .base_lr = 0.8, .stop_factor_lr = 0.11, .warmup = {.steps = 3, .begin_lr = 0.2}}),
      {0.4, 0.6, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.11, 0.11, 0.11, 0.11, 0.11, 0.11});
  check_rates(
      MultiFactorScheduler(
          {.step = {4, 10, 11},
           .factor = 0.1,
           .base_lr = 0.8,
           .warmup = {.steps = 6, .begin_lr = 0.2, .mode = Warmup::Mode::constant}}),
      {0.2, 0.2, 0.2, 0.2, 0.2, 0.08, 0.08, 0.08, 0.008, 8e-4, 8e-4, 8e-4, 8e-4, 8e-4, 8e-4, 8e-4, 8e-4});
  check_rates(
      PolyScheduler(
          {.max_update = 30, .base_lr = 0.8, .pwr = 2, .final_lr = 0.1, .warmup = {.steps = 5, .begin_lr = 0.05}}),
      {0.2,
       0.35,
       0.5,
       0.65,
       0.8,
       0.74512,
       0.59392,
       0.548,
       0.50432,
       0.46288,
       0.352,
       0.212,
       0.19072,
       0.128,
       0.1,
       0.1,
       0.1});
  check_rates(
      CosineScheduler({.max_update = 30, .base_lr = 0.8, .final_lr = 0.1, .warmup = {.steps = 5, .begin_lr = 0.05}}),
      {0.2,
       0.35,
       0.5,
       0.65,
       0.8,
       0.797240145,
       0.756707338,
       0.733155948,
       0.70513902,
       0.673098396,
       0.558155948,
       0.341844052,
       0.300977248,
       0.166844052,
       0.1,
       0.1,
       0.1});
}

TEST_CASE("One cycle goes up and down as PyTorch's", "[gluon][lr_scheduler]") {
  const std::vector<double> cosine = {0.1, 0.2, 0.4, 0.5, 0.466573338, 0.37525, 0.2505, 0.12575, 0.0344266618, 0.001};
  const std::vector<double> straight = {
      0.1, 0.233333333, 0.366666667, 0.5, 0.416833333, 0.333666667, 0.2505, 0.167333333, 0.0841666667, 0.001};
  for (const bool linear : {false, true}) {
    const OneCycleScheduler schedule(
        {.total_steps = 10,
         .max_lr = 0.5,
         .pct_start = 0.4,
         .div_factor = 5,
         .final_div_factor = 100,
         .linear = linear});
    for (std::int64_t n = 1; n <= 10; ++n)
      CHECK(schedule(n) == Approx((linear ? straight : cosine)[static_cast<std::size_t>(n - 1)]));
    CHECK(schedule(11) == Approx(0.001));
  }
  // Down alone, and up alone.
  CHECK(OneCycleScheduler({.total_steps = 4, .max_lr = 1, .pct_start = 0})(4) == Approx(1 / 25. / 1e4));
  CHECK(OneCycleScheduler({.total_steps = 4, .max_lr = 1, .pct_start = 1, .linear = true})(1) == Approx(1 / 25.));
}

TEST_CASE("A rate below the least one stays until its first change, as MXNet's", "[gluon][lr_scheduler]") {
  const FactorScheduler schedule({.step = 2, .factor = 0.5, .base_lr = 0.01, .stop_factor_lr = 0.1});
  CHECK(schedule(1) == 0.01);
  CHECK(schedule(2) == 0.01);
  CHECK(schedule(3) == 0.1);
}

TEST_CASE("One cycle that only goes up ends at the top, as PyTorch's", "[gluon][lr_scheduler]") {
  const OneCycleScheduler up({.total_steps = 4, .max_lr = 1, .pct_start = 1});
  CHECK(up(1) == Approx(0.04));
  CHECK(up(3) == Approx(0.76));
  CHECK(up(4) == 1);
  CHECK(up(5) == 1);
  const OneCycleScheduler down({.total_steps = 4, .max_lr = 1, .pct_start = 0.25, .linear = true});
  CHECK(down(1) == 1);
  CHECK(down(4) == Approx(4e-6));
}

TEST_CASE("Schedules follow each other, each counting its own steps", "[gluon][lr_scheduler]") {
  const ChainedScheduler chained(
      {{2, FactorScheduler({.step = 1, .factor = 0.5, .base_lr = 1})},
       {0, [](std::int64_t) { return 77.; }},
       {3, [](std::int64_t n) { return static_cast<double>(n); }},
       {1, FactorScheduler({.step = 2, .factor = 0.1, .base_lr = 10})}});
  const std::vector<double> wanted = {1, 0.5, 1, 2, 3, 10, 10, 1, 1, 0.1};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(chained(static_cast<std::int64_t>(i) + 1) == Approx(wanted[i]));
}

TEST_CASE("Schedules that make no sense are refused", "[gluon][lr_scheduler]") {
  CHECK_THROWS_AS(FactorScheduler({.step = 0}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.factor = 1.1}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.base_lr = -1}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.stop_factor_lr = NAN}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.warmup = {.steps = -1}}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.base_lr = 0.1, .warmup = {.steps = 1, .begin_lr = 0.2}}), ValueError);
  CHECK_THROWS_AS(MultiFactorScheduler({}), ValueError);
  CHECK_THROWS_AS(MultiFactorScheduler({.step = {3, 3}}), ValueError);
  CHECK_THROWS_AS(MultiFactorScheduler({.step = {0}}), ValueError);
  CHECK_THROWS_AS(PolyScheduler({.max_update = 3, .warmup = {.steps = 3}}), ValueError);
  CHECK_THROWS_AS(PolyScheduler({.pwr = -1}), ValueError);
  CHECK_THROWS_AS(CosineScheduler({.max_update = 0}), ValueError);
  CHECK_THROWS_AS(CosineScheduler({.final_lr = INFINITY}), ValueError);
  CHECK_THROWS_AS(OneCycleScheduler({.total_steps = 1}), ValueError);
  CHECK_THROWS_AS(OneCycleScheduler({.pct_start = 1.5}), ValueError);
  CHECK_THROWS_AS(OneCycleScheduler({.div_factor = 0}), ValueError);
  CHECK_THROWS_AS(ChainedScheduler({}), ValueError);
  CHECK_THROWS_AS(ChainedScheduler({{1, nullptr}}), ValueError);
}

TEST_CASE("A trainer follows its schedule, goes on from saved states, and leaves it", "[gluon][lr_scheduler]") {
  const Schedule schedule = [](std::int64_t n) { return 0.25 * static_cast<double>(n); };
  const TemporaryFolder folder;
  Trained one;
  Trainer trainer(one.dict, SGD({.learning_rate = 9}));
  trainer.set_schedule(schedule);
  CHECK(trainer.learning_rate() == 0.25);
  CHECK(one.step(trainer) == 0.25);
  CHECK(one.step(trainer) == 0.5);
  CHECK(trainer.learning_rate() == 0.5);
  CHECK_THROWS_AS(trainer.set_learning_rate(1), ValueError);
  trainer.save_states(folder / "states.npz");
  CHECK(one.step(trainer) == 0.75);

  Trained other;
  Trainer resumed(other.dict, SGD({.learning_rate = 9}));
  resumed.set_schedule(schedule);
  resumed.load_states(folder / "states.npz");
  CHECK(resumed.learning_rate() == 0.5);  // the last step had it
  CHECK(other.step(resumed) == 0.75);
  resumed.set_schedule({});
  CHECK(other.step(resumed) == 0.75);
  resumed.set_learning_rate(2);
  CHECK(other.step(resumed) == 2);
}

TEST_CASE("A schedule that throws, or gives no rate, leaves the step untaken", "[gluon][lr_scheduler]") {
  Trained one;
  Trainer trainer(one.dict, SGD());
  trainer.set_schedule([](std::int64_t n) -> double {
    if (n == 2)
      throw std::runtime_error("no rate");
    return n == 3 ? -1 : 0.5;
  });
  CHECK(one.step(trainer) == 0.5);
  const double before = one.weight.data().item<double>();
  CHECK_THROWS_AS(one.step(trainer), std::runtime_error);
  CHECK(one.weight.data().item<double>() == before);
  CHECK(trainer.optimizer().num_updates() == 1);
  CHECK_THROWS_AS(trainer.set_schedule([](std::int64_t) { return -1.; }), ValueError);
  CHECK_THROWS_AS(trainer.set_schedule([](std::int64_t) { return NAN; }), ValueError);
  trainer.set_schedule([](std::int64_t n) { return static_cast<double>(n); });
  CHECK(one.step(trainer) == 2);
}

TEST_CASE("Steps as a graph follow the schedule as those by hand", "[gluon][lr_scheduler][hybrid]") {
  const NDArray x = pattern_array({4, 3}), y = pattern_array({4, 2}, 5);
  const auto train = [&](bool as_graph) {
    random::seed(3);
    gluon::nn::Dense net(2);
    net.initialize(gluon::init::Xavier());
    net(x);
    Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.1}));
    trainer.set_schedule(CosineScheduler({.max_update = 6, .base_lr = 0.2, .warmup = {.steps = 2}}));
    const L2Loss loss;
    gluon::TrainStep step(net, loss, trainer);
    for (int i = 0; i < 8; ++i) {
      if (as_graph) {
        step(x, y);
        continue;
      }
      NDArray losses;
      {
        const autograd::RecordScope record;
        losses = loss(net(x), y);
      }
      losses.backward();
      trainer.step(4);
    }
    CHECK(trainer.learning_rate() == 0);
    return values(net.own_parameter("weight").data());
  };
  CHECK(train(true) == train(false));
}
