#include <cmath>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

ParameterDict two_parameters() {
  ParameterDict dict;
  dict.insert("a", Parameter("a", {.shape = {2, 3}}));
  dict.insert("b", Parameter("b", {.shape = {4}}));
  int start = 0;
  for (const auto& [name, parameter] : dict)
    parameter.set_data(pattern_array(parameter.shape(), start++));
  return dict;
}

// Gradient of sum(w^2) / 2 + sum(w): w + 1.
void backward(const ParameterDict& dict) {
  for (const auto& [name, parameter] : dict) {
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = sum(square(parameter.data()) * 0.5 + parameter.data());
    }
    loss.backward();
  }
}

std::vector<double> flat(const ParameterDict& dict) {
  std::vector<double> all;
  for (const auto& [name, parameter] : dict) {
    for (float value : values(parameter.data()))
      all.push_back(static_cast<double>(value));
  }
  return all;
}

void check_weights(const ParameterDict& dict, const std::vector<double>& expected) {
  const std::vector<double> found = flat(dict);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == Approx(expected[i]).margin(1e-5));
}

}  // namespace

TEST_CASE("SGD steps equal a plain loop", "[gluon][trainer]") {
  const double lr = 0.1, momentum = 0.9, decay = 0.01, batch = 4;
  ParameterDict dict = two_parameters();
  std::vector<double> w = flat(dict), m(w.size());
  Trainer trainer(dict, SGD({.learning_rate = lr, .momentum = momentum, .wd = decay}));
  for (int step = 0; step < 5; ++step) {
    backward(dict);
    trainer.step(static_cast<std::int64_t>(batch));
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = momentum * m[i] - lr * ((w[i] + 1) / batch + decay * w[i]);
      w[i] += m[i];
    }
  }
  check_weights(dict, w);
}

TEST_CASE("Adam steps equal a plain loop", "[gluon][trainer]") {
  const double lr = 0.01, b1 = 0.9, b2 = 0.999, epsilon = 1e-8, decay = 0.02;
  ParameterDict dict = two_parameters();
  std::vector<double> w = flat(dict), m(w.size()), v(w.size());
  Trainer trainer(dict, Adam({.learning_rate = lr, .wd = decay}));
  for (int t = 1; t <= 5; ++t) {
    backward(dict);
    trainer.step(1);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = w[i] + 1 + decay * w[i];
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      w[i] -= lr * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }
  check_weights(dict, w);
}

TEST_CASE("multipliers and clipping reach the update", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  dict["a"].set_lr_mult(0);
  dict["b"].set_wd_mult(0);
  std::vector<double> w = flat(dict);
  Trainer trainer(dict, SGD({.learning_rate = 1, .wd = 0.5, .clip_gradient = 0.25}));
  backward(dict);
  trainer.step(1);
  for (std::size_t i = 6; i < w.size(); ++i)
    w[i] -= std::clamp(w[i] + 1, -0.25, 0.25);
  check_weights(dict, w);
}

TEST_CASE("a parameter is spared the decay though all learn at one rate", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  dict["b"].set_wd_mult(0);
  std::vector<double> w = flat(dict);
  Trainer trainer(dict, SGD({.learning_rate = 0.5, .wd = 0.25}));
  backward(dict);
  trainer.step(1);
  for (std::size_t i = 0; i < w.size(); ++i)
    w[i] -= 0.5 * (w[i] + 1 + (i < 6 ? 0.25 * w[i] : 0));
  check_weights(dict, w);
}

TEST_CASE("a step without a fresh gradient is an error that names the parameter", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, SGD());
  CHECK_THROWS_WITH(trainer.step(1), contains("'a'") && contains("ignore_stale_grad"));
  backward(dict);
  trainer.step(1);
  CHECK_THROWS_AS(trainer.step(1), ValueError);
  const std::vector<double> before = flat(dict);
  trainer.step(1, true);
  check_weights(dict, before);
  CHECK_THROWS_AS(trainer.step(0), ValueError);
}

TEST_CASE("parameters without a value are an error, untrained ones are left alone", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  dict.insert("late", Parameter("late", {.shape = {0}}));
  dict["b"].set_grad_req(GradReq::null);
  Trainer trainer(dict, SGD());
  ParameterDict trained;
  trained.insert("a", dict["a"]);
  backward(trained);
  CHECK_THROWS_WITH(trainer.step(1), contains("'late'"));
  const std::vector<float> b = values(dict["b"].data());
  trainer.step(1, true);
  CHECK(values(dict["b"].data()) == b);
}

TEST_CASE("a shared parameter is updated once", "[gluon][trainer]") {
  ParameterDict dict;
  const Parameter weight("weight", {.shape = {2}});
  weight.set_data(ones({2}));
  dict.insert("0.weight", weight);
  dict.insert("1.weight", weight);
  Trainer trainer(dict, SGD({.learning_rate = 0.5}));
  ParameterDict once;
  once.insert("w", weight);
  backward(once);
  trainer.step(1);
  CHECK(values(weight.data()) == std::vector<float>{0, 0});
}

TEST_CASE("the learning rate can be read and changed", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, SGD({.learning_rate = 0.5}));
  CHECK(trainer.learning_rate() == 0.5);
  trainer.set_learning_rate(0);
  const std::vector<double> before = flat(dict);
  backward(dict);
  trainer.step(1);
  check_weights(dict, before);
  CHECK_THROWS_AS(trainer.set_learning_rate(-1), ValueError);
  CHECK_THROWS_AS(SGD({.momentum = 2}), ValueError);
  CHECK_THROWS_AS(Adam({.beta1 = -1}), ValueError);
  CHECK_THROWS_AS(Trainer(ParameterDict(), SGD()), ValueError);
}

TEST_CASE("saved states go on where they stopped", "[gluon][trainer]") {
  TemporaryFolder folder;
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, Adam());
  const auto steps = [](const ParameterDict& parameters, Trainer& by, int n) {
    for (int i = 0; i < n; ++i) {
      backward(parameters);
      by.step(1);
    }
  };
  steps(dict, trainer, 3);
  trainer.save_states(folder / "states.npz");
  ParameterDict copy = two_parameters();
  for (const auto& [name, parameter] : dict)
    copy[name].set_data(parameter.data());
  Trainer resumed(copy, Adam());
  resumed.load_states(folder / "states.npz");
  CHECK(resumed.optimizer().num_updates() == 3);
  steps(dict, trainer, 2);
  steps(copy, resumed, 2);
  CHECK(flat(dict) == flat(copy));
}

TEST_CASE("states that do not fit are refused", "[gluon][trainer]") {
  TemporaryFolder folder;
  const auto file = folder / "states.npz";
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, Adam());
  CHECK_THROWS_AS(trainer.load_states(file), FileError);
  save(file, {{"a.mean", zeros({2, 3})}});
  CHECK_THROWS_WITH(trainer.load_states(file), contains("num_updates"));
  save(file, {{"num_updates", array<std::int64_t>({3})}, {"c.mean", zeros({2, 3})}});
  CHECK_THROWS_WITH(trainer.load_states(file), contains("'c.mean'"));
  save(file, {{"num_updates", array<std::int64_t>({3})}, {"a.mean", zeros({2, 4})}});
  CHECK_THROWS_AS(trainer.load_states(file), ShapeError);
  save(file, {{"num_updates", array<std::int64_t>({3})}, {"a.mean", zeros({2, 3}, {.dtype = float64})}});
  CHECK_THROWS_WITH(trainer.load_states(file), contains("'a.mean' is float64, this parameter's is float32"));
  CHECK_THROWS_AS(trainer.load_states(file), DTypeError);
  backward(dict);
  CHECK_NOTHROW(trainer.step(1));  // nothing was taken over
}

TEST_CASE("A trainer that was moved from says so", "[gluon][trainer]") {
  gluon::nn::Dense net(2, {.in_units = 3});
  net.initialize();
  gluon::Trainer from(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1}));
  gluon::Trainer to(std::move(from));
  const gluon::loss::L2Loss loss;
  gluon::TrainStep step(net, loss, from);
  CHECK_THROWS_AS(from.step(1), ValueError);
  CHECK_THROWS_AS(from.prepare_step(1), ValueError);
  CHECK_THROWS_AS(from.learning_rate(), ValueError);
  CHECK_THROWS_AS(step(ones({2, 3}), zeros({2, 2})), ValueError);
  CHECK(to.learning_rate() == 0.1);
}
