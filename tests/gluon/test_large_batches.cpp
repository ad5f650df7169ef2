// LBSGD: large batches of several small ones, and the rate that warms up to them; LANS and GroupAdaGrad beside others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/gluon/formula_steps.h"

using namespace sluice;
using namespace sluice::test;
namespace optimizer = gluon::optimizer;
using optimizer::LargeBatchWarmup;

namespace {

/// What a rate is multiplied by at batch n, of 3 batches a step and 20 of warming up.
double warm_rate(LargeBatchWarmup strategy, double n) {
  const double part = std::min(1.0, n / 20);
  const double grown = strategy == LargeBatchWarmup::power2 ? part * part
                       : strategy == LargeBatchWarmup::sqrt ? std::sqrt(part)
                                                            : part;
  return 1 + 2 * grown;
}

/// A vector whose gradient each step is told.
struct Vector {
  Parameter weight{"weight", {.shape = {2}}};
  ParameterDict dict;
  std::unique_ptr<Trainer> trainer;

  explicit Vector(std::unique_ptr<optimizer::Optimizer> made) {
    weight.set_data(array<float>({1, 2}));
    dict.insert("weight", weight);
    trainer = std::make_unique<Trainer>(dict, std::move(made));
  }
  std::vector<float> step(const std::vector<float>& gradient) {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(weight.data() * array(gradient, {2}));
    }
    loss.backward();
    trainer->step(1);
    return values(weight.data());
  }
};

template <class O, class Options>
Vector trained(const Options& options) {
  return Vector(std::make_unique<O>(options));
}

}  // namespace

TEST_CASE("LBSGD follows its formula over 50 steps, however its rate warms up", "[gluon][trainer]") {
  for (const LargeBatchWarmup strategy :
       {LargeBatchWarmup::linear, LargeBatchWarmup::power2, LargeBatchWarmup::sqrt, LargeBatchWarmup::lars}) {
    for (const int begin : {0, 1, 7}) {
      CAPTURE(static_cast<int>(strategy), begin);
      check<optimizer::LBSGD>(
          optimizer::LBSGDOptions{
              .learning_rate = 0.02,
              .momentum = 0.8,
              .warmup_strategy = strategy,
              .warmup_epochs = 2,
              .batch_scale = 3,
              .updates_per_epoch = 10,
              .begin_epoch = begin,
              .wd = 0.03,
              .clip_gradient = 0.4},
          [=](Told& s) {
            const int n = begin * 10 + s.t;
            for (std::size_t i = 0; i < s.size(); ++i)
              s.a[i] += s.whole[i];
            if (n % 3 != 0)
              return;
            Numbers mean;
            for (const double total : s.a)
              mean.push_back(cut(total / 3, 0.4));
            const double of_w = s.norm(s.w), of_g = s.norm(mean);
            const double by_norms = std::sqrt(of_w * of_w / (of_g * of_g + 0.03 * of_w * of_w + 1e-18));
            const double x =
                strategy == LargeBatchWarmup::lars ? std::clamp(by_norms, 0.01, 100.0) : warm_rate(strategy, n);
            for (std::size_t i = 0; i < s.size(); ++i) {
              s.b[i] = 0.8 * s.b[i] - 0.02 * x * (mean[i] + 0.03 * s.w[i]);
              s.w[i] += s.b[i];
              s.a[i] = 0;
            }
          });
    }
  }
}

TEST_CASE("Batches of LBSGD are one step of SGD on all of them, at batch_scale times the rate", "[gluon][trainer]") {
  Vector several = trained<optimizer::LBSGD>(
      optimizer::LBSGDOptions{.learning_rate = 0.125, .momentum = 0.5, .warmup_epochs = 0, .batch_scale = 4});
  Vector one = trained<optimizer::SGD>(optimizer::SGDOptions{.learning_rate = 0.5, .momentum = 0.5});
  const std::vector<std::vector<float>> parts = {{1, 2}, {3, -2}, {0, 4}, {4, 0}};
  for (int round = 0; round < 3; ++round) {
    const std::vector<float> before = values(several.weight.data());
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(several.step(parts[i]) == before);
    CHECK(several.step(parts[3]) == one.step({2, 1}));  // the mean
  }
  CHECK(several.trainer->optimizer().num_updates() == 12);
}

TEST_CASE("Without more batches a step LBSGD is SGD, and by norms is cut to 0.01 and 100", "[gluon][trainer]") {
  Vector lbsgd = trained<optimizer::LBSGD>(optimizer::LBSGDOptions{.learning_rate = 0.25});
  Vector sgd = trained<optimizer::SGD>(optimizer::SGDOptions{.learning_rate = 0.25});
  for (int i = 0; i < 3; ++i)
    CHECK(lbsgd.step({1, -3}) == sgd.step({1, -3}));
  const optimizer::LBSGDOptions by_norms{.learning_rate = 0.25, .warmup_strategy = LargeBatchWarmup::lars};
  check_near(trained<optimizer::LBSGD>(by_norms).step({0, 4e-3F}), {1, 2 - 0.25F * 100 * 4e-3F});
  check_near(trained<optimizer::LBSGD>(by_norms).step({400, 0}), {1 - 0.25F * 0.01F * 400, 2});
  check_near(trained<optimizer::LBSGD>(by_norms).step({3, 4}), {1 - 0.15F * std::sqrt(5.F), 2 - 0.2F * std::sqrt(5.F)});
}

TEST_CASE("A batch that a guard leaves out of LBSGD is none; its step comes with the next", "[gluon][trainer][guard]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto make = [] {
    return trained<optimizer::LBSGD>(
        optimizer::LBSGDOptions{.learning_rate = 0.25, .warmup_epochs = 0, .batch_scale = 2});
  };
  Vector inner = make();
  inner.trainer->guard_gradients({.skip_non_finite = true});
  inner.step({nan, 1});
  check_near(inner.step({1, 2}), {1 - 0.5F * 0.5F, 2 - 0.5F});
  Vector due = make();
  due.trainer->guard_gradients({.skip_non_finite = true});
  due.step({1, 2});
  CHECK(due.step({1, nan}) == std::vector<float>{1, 2});
  due.step({1, 0});
  check_near(due.step({2, 2}), {1 - 0.25F * 4, 2 - 0.25F * 4});  // of the first, too
}

TEST_CASE("LANS steps alike however long gradients are, and stays where there are none", "[gluon][trainer]") {
  const optimizer::LANSOptions options{.learning_rate = 0.125};
  Vector small = trained<optimizer::LANS>(options), large = trained<optimizer::LANS>(options);
  for (int i = 0; i < 4; ++i) {
    const float along = static_cast<float>(i) - 1;
    CHECK(small.step({3, along}) == large.step({3 * 0x1p80F, along * 0x1p80F}));
  }
  CHECK(values(small.weight.data()) != std::vector<float>{1, 2});
  Vector still = trained<optimizer::LANS>(options);
  CHECK(still.step({0, 0}) == std::vector<float>{1, 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(still.step({0, nan})[0]));  // the norm is none
  Vector tiny = trained<optimizer::LANS>(options);
  for (const float value : tiny.step({2e-38F, 0}))
    CHECK(std::isfinite(value));
}

TEST_CASE("GroupAdaGrad keeps a number a row", "[gluon][trainer]") {
  const optimizer::GroupAdaGrad made;
  CHECK(made.state_shape("history", {7, 3}) == Shape{7, 1});
  CHECK(made.state_shape("history", {7, 3, 2}) == Shape{7, 1, 1});
  CHECK(made.state_shape("history", {7}) == Shape{7});
  CHECK(made.state_shape("history", {}) == Shape{});
  CHECK(made.state_shape("master", {7, 3}) == Shape{7, 3});
}

TEST_CASE("Options of LBSGD, LANS, AdaBelief and GroupAdaGrad out of range are refused by name", "[gluon][trainer]") {
  using namespace gluon::optimizer;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, -1.0, std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_WITH(AdaBelief({.beta1 = bad}), contains("AdaBelief: beta1 is"));
    CHECK_THROWS_WITH(AdaBelief({.epsilon = bad}), contains("AdaBelief: epsilon is"));
    CHECK_THROWS_WITH(GroupAdaGrad({.epsilon = bad}), contains("GroupAdaGrad: epsilon is"));
    CHECK_THROWS_WITH(LANS({.beta2 = bad}), contains("LANS: beta2 is"));
    CHECK_THROWS_WITH(LANS({.wd = bad}), contains("LANS: wd is"));
    CHECK_THROWS_WITH(LBSGD({.momentum = bad}), contains("LBSGD: momentum is"));
  }
  CHECK_THROWS_AS(LANS({.upper_bound = nan}), ValueError);
  CHECK_THROWS_WITH(LBSGD({.batch_scale = 0}), contains("LBSGD: batch_scale is 0"));
  CHECK_THROWS_WITH(LBSGD({.updates_per_epoch = 0}), contains("LBSGD: updates_per_epoch is 0"));
  CHECK_THROWS_WITH(LBSGD({.warmup_epochs = -1}), contains("LBSGD: warmup_epochs is -1"));
  CHECK_THROWS_WITH(LBSGD({.begin_epoch = std::int64_t{1} << 40}), contains("LBSGD: begin_epoch is"));
}
