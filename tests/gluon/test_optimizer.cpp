// What an optimizer remembers: whose it is, how often each parameter was updated, and what goes to a file.
#include <cmath>
#include <limits>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

namespace {

ParameterDict two_parameters() {
  ParameterDict dict;
  for (const char* name : {"0.weight", "1.weight"}) {
    const Parameter parameter("weight", {.shape = {3}});
    parameter.set_data(pattern_array({3}));
    dict.insert(name, parameter);
  }
  return dict;
}

// Gradient 2w of each trained parameter.
void backward(const ParameterDict& dict) {
  for (const auto& [name, parameter] : dict) {
    if (parameter.grad_req() == GradReq::null)
      continue;
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = sum(square(parameter.data()));
    }
    loss.backward();
  }
}

void steps(const ParameterDict& dict, Trainer& trainer, int n) {
  for (int i = 0; i < n; ++i) {
    backward(dict);
    trainer.step(1);
  }
}

std::vector<float> all_values(const ParameterDict& dict) {
  std::vector<float> all;
  for (const auto& [name, parameter] : dict) {
    const std::vector<float> one = values(parameter.data());
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

ParameterDict copy_of(const ParameterDict& dict) {
  ParameterDict copy = two_parameters();
  for (const auto& [name, parameter] : dict)
    copy[name].set_data(parameter.data());
  return copy;
}

}  // namespace

TEST_CASE("a layer that is unfrozen later begins as a new one does", "[gluon][trainer]") {
  ParameterDict dict = two_parameters(), fresh = two_parameters();
  dict["1.weight"].set_grad_req(GradReq::null);
  Trainer trainer(dict, Adam({.learning_rate = 0.1})), other(fresh, Adam({.learning_rate = 0.1}));
  steps(dict, trainer, 20);
  CHECK(values(dict["1.weight"].data()) == values(fresh["1.weight"].data()));
  dict["1.weight"].set_grad_req(GradReq::write);
  steps(dict, trainer, 3);
  steps(fresh, other, 3);
  CHECK(values(dict["1.weight"].data()) == values(fresh["1.weight"].data()));
  CHECK(trainer.optimizer().num_updates("0.weight") == 23);
  CHECK(trainer.optimizer().num_updates("1.weight") == 3);
  CHECK(trainer.optimizer().num_updates("2.weight") == 0);
  CHECK(trainer.optimizer().num_updates() == 23);
}

TEST_CASE("momentum and step counts go to a file and come back", "[gluon][trainer]") {
  TemporaryFolder folder;
  const auto go_on = [&](auto make) {
    ParameterDict dict = two_parameters();
    dict["1.weight"].set_grad_req(GradReq::null);
    Trainer trainer(dict, make());
    steps(dict, trainer, 3);
    dict["1.weight"].set_grad_req(GradReq::write);
    steps(dict, trainer, 2);
    trainer.save_states(folder / "states.npz");
    ParameterDict copy = copy_of(dict);
    Trainer resumed(copy, make());
    resumed.load_states(folder / "states.npz");
    CHECK(resumed.optimizer().num_updates() == 5);
    CHECK(resumed.optimizer().num_updates("0.weight") == 5);
    CHECK(resumed.optimizer().num_updates("1.weight") == 2);
    steps(dict, trainer, 2);
    steps(copy, resumed, 2);
    CHECK(all_values(dict) == all_values(copy));
  };
  go_on([] { return SGD({.learning_rate = 0.01, .momentum = 0.9}); });
  go_on([] { return Adam({.learning_rate = 0.01}); });
}

TEST_CASE("momentum is in the states", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, SGD({.learning_rate = 0.25, .momentum = 0.5}));
  const std::vector<float> before = values(dict["0.weight"].data());
  steps(dict, trainer, 1);
  const Optimizer::States states = trainer.optimizer().states();
  REQUIRE(states.contains("0.weight.momentum"));
  std::vector<float> expected;
  for (const float w : before)
    expected.push_back(-0.25f * 2 * w);
  check_near(values(states.at("0.weight.momentum")), expected);
}

TEST_CASE("states are a snapshot, and belong to whoever loaded them", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, SGD({.learning_rate = 0.01, .momentum = 0.5}));
  steps(dict, trainer, 1);
  const Optimizer::States snapshot = trainer.optimizer().states();
  const std::vector<float> before = values(snapshot.at("0.weight.momentum"));
  ParameterDict copy = copy_of(dict);
  Trainer other(copy, SGD({.learning_rate = 0.01, .momentum = 0.5}));
  other.optimizer().load_states(snapshot);
  steps(dict, trainer, 2);
  CHECK(values(snapshot.at("0.weight.momentum")) == before);
  steps(copy, other, 2);
  CHECK(values(snapshot.at("0.weight.momentum")) == before);
  CHECK(all_values(dict) == all_values(copy));
}

TEST_CASE("states of another optimizer are refused by both names", "[gluon][trainer]") {
  TemporaryFolder folder;
  ParameterDict dict = two_parameters();
  Trainer adam(dict, Adam()), sgd(dict, SGD({.momentum = 0.9})), plain(dict, SGD());
  steps(dict, adam, 2);
  steps(dict, sgd, 1);
  adam.save_states(folder / "adam.npz");
  sgd.save_states(folder / "sgd.npz");
  for (Trainer* trainer : {&sgd, &plain}) {
    CHECK_THROWS_WITH(
        trainer->load_states(folder / "adam.npz"), contains("Adam") && contains("SGD") && contains("adam.npz"));
  }
  CHECK_THROWS_WITH(adam.load_states(folder / "sgd.npz"), contains("Adam") && contains("SGD"));
  CHECK(adam.optimizer().num_updates() == 2);  // and nothing changed
  CHECK(sgd.optimizer().num_updates() == 1);
  CHECK_NOTHROW(plain.load_states(folder / "sgd.npz"));
}

TEST_CASE("states that lack a name or a count, or hold what is no state, are refused", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, Adam());
  steps(dict, trainer, 4);
  const Optimizer::States whole = trainer.optimizer().states();
  Adam other;
  for (const std::string entry : {"optimizer", "num_updates", "0.weight.num_updates"}) {
    Optimizer::States less = whole;
    less.erase(entry);
    CHECK_THROWS_WITH(other.load_states(less), contains("lack the entry '" + entry + "'"));
  }
  for (const std::string entry : {"num_updates", "0.weight.num_updates"}) {
    Optimizer::States negative = whole;
    negative[entry] = array<std::int64_t>({-1});
    CHECK_THROWS_WITH(other.load_states(negative), contains("'" + entry + "' is -1"));
    negative[entry] = array<std::int64_t>({std::numeric_limits<std::int64_t>::max()});  // one more cannot be counted
    CHECK_THROWS_WITH(other.load_states(negative), contains("'" + entry + "' is 9223372036854775807"));
  }
  Optimizer::States more = whole;
  more["0.weight.momentum"] = zeros({2});
  CHECK_THROWS_WITH(other.load_states(more), contains("'0.weight.momentum' is no state of Adam"));
  CHECK(other.num_updates() == 0);
  CHECK_NOTHROW(other.load_states(whole));
}

TEST_CASE("states are whole for each parameter that was updated, or refused", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  dict["1.weight"].set_grad_req(GradReq::null);  // never updated: has none
  Trainer trainer(dict, Adam()), momentum(dict, SGD({.momentum = 0.9})), plain(dict, SGD());
  for (Trainer* each : {&trainer, &momentum, &plain})
    steps(dict, *each, 4);
  const Optimizer::States adam = trainer.optimizer().states();
  Adam other;
  for (const std::string slot : {"mean", "variance"}) {
    Optimizer::States less = adam;
    REQUIRE(less.erase("0.weight." + slot) == 1);
    CHECK_THROWS_WITH(
        other.load_states(less), contains("lack the entry '0.weight." + slot + "'") && contains("updated 4 times"));
    less.erase("0.weight.mean");
    less.erase("0.weight.variance");
    CHECK_THROWS_AS(other.load_states(less), ValueError);  // not even all of them
  }
  CHECK(other.num_updates() == 0);
  CHECK_NOTHROW(other.load_states(adam));

  SGD sgd({.momentum = 0.9}), light;
  CHECK_NOTHROW(sgd.load_states(plain.optimizer().states()));  // momentum begins now
  dict["1.weight"].set_grad_req(GradReq::write);
  steps(dict, momentum, 1);
  Optimizer::States some = momentum.optimizer().states();
  CHECK_NOTHROW(sgd.load_states(some));
  REQUIRE(some.erase("1.weight.momentum") == 1);
  CHECK_THROWS_WITH(sgd.load_states(some), contains("lack the entry '1.weight.momentum'"));
  CHECK_NOTHROW(light.load_states(some));  // needs none
  using gluon::optimizer::DCASGD;
  Trainer compensated(dict, DCASGD({.momentum = 0.9}));
  steps(dict, compensated, 1);
  DCASGD still;
  CHECK_NOTHROW(still.load_states(compensated.optimizer().states()));  // nor of the momentum that it may keep
}

TEST_CASE("a step that fails is not counted", "[gluon][trainer]") {
  ParameterDict dict = two_parameters();
  Trainer trainer(dict, SGD({.momentum = 0.9}));
  steps(dict, trainer, 2);
  Optimizer::States states = trainer.optimizer().states();
  states["1.weight.momentum"] = zeros({7});
  trainer.optimizer().load_states(states);
  backward(dict);
  CHECK_THROWS_AS(trainer.step(1), ShapeError);
  CHECK(trainer.optimizer().num_updates("0.weight") == 2);
  CHECK(trainer.optimizer().num_updates("1.weight") == 2);
  CHECK(trainer.optimizer().num_updates() == 2);
}

TEST_CASE("options that are no numbers are refused", "[gluon][trainer]") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, -1.0, infinity}) {
    INFO(bad);
    CHECK_THROWS_AS(SGD({.learning_rate = bad}), ValueError);
    CHECK_THROWS_AS(SGD({.momentum = bad}), ValueError);
    CHECK_THROWS_AS(SGD({.wd = bad}), ValueError);
    CHECK_THROWS_AS(Adam({.learning_rate = bad}), ValueError);
    CHECK_THROWS_AS(Adam({.beta1 = bad}), ValueError);
    CHECK_THROWS_AS(Adam({.beta2 = bad}), ValueError);
    CHECK_THROWS_AS(Adam({.epsilon = bad}), ValueError);
    CHECK_THROWS_AS(Adam({.wd = bad}), ValueError);
    CHECK_THROWS_AS(Parameter("w", {.lr_mult = bad}), ValueError);
    CHECK_THROWS_AS(two_parameters()["0.weight"].set_lr_mult(bad), ValueError);
    CHECK_THROWS_AS(two_parameters()["0.weight"].set_wd_mult(bad), ValueError);
    SGD sgd;
    CHECK_THROWS_AS(sgd.set_learning_rate(bad), ValueError);
  }
  CHECK_THROWS_AS(SGD({.clip_gradient = nan}), ValueError);
  CHECK_THROWS_AS(Adam({.clip_gradient = nan}), ValueError);
  CHECK_THROWS_AS(Adam({.beta1 = 1}), ValueError);
}

TEST_CASE("backward that records itself adds to gradients that are to be added to", "[gluon][trainer]") {
  const Parameter weight("weight", {.shape = {2}, .grad_req = GradReq::add, .init = gluon::init::Constant(2)});
  weight.initialize({}, cpu());
  const auto recorded_backward = [&] {
    NDArray y;
    {
      autograd::RecordScope record;
      y = weight.data() * weight.data() * weight.data();
    }
    y.backward(ones({2}), {.create_graph = true});
  };
  recorded_backward();
  CHECK(values(weight.grad()) == std::vector<float>{12, 12});
  recorded_backward();
  CHECK(values(weight.grad()) == std::vector<float>{24, 24});
  // The sum is on the tape: the gradient of 2 * 3 w^2 is 12 w, which is added in turn.
  weight.grad().backward();
  CHECK(values(weight.grad()) == std::vector<float>{48, 48});
}
