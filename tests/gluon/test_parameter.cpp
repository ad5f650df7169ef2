#include <thread>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("a parameter is initialised once, on its device, unless forced", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2, 3}});
  CHECK_FALSE(weight.is_initialized());
  weight.initialize(gluon::init::Constant(2), cpu());
  CHECK(values(weight.data()) == std::vector<float>(6, 2));
  weight.initialize(gluon::init::One(), cpu());
  CHECK(values(weight.data()) == std::vector<float>(6, 2));
  weight.initialize(gluon::init::One(), cpu(), true);
  CHECK(values(weight.data()) == std::vector<float>(6, 1));
  CHECK(values(weight.grad()) == std::vector<float>(6, 0));
}

TEST_CASE("its own initialiser goes before the one of initialize()", "[gluon][parameter]") {
  Parameter bias("bias", {.shape = {2}, .init = gluon::init::One()});
  bias.initialize(gluon::init::Zero(), cpu());
  CHECK(values(bias.data()) == std::vector<float>{1, 1});
  Parameter none("none", {.shape = {2}});
  CHECK_THROWS_AS(none.initialize({}, cpu()), ValueError);
}

TEST_CASE("a parameter without a value says what to do", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2, 0}});
  CHECK_THROWS_WITH(weight.data(), contains("'weight'") && contains("initialize()"));
  CHECK_THROWS_AS(weight.grad(), ValueError);
  CHECK_THROWS_AS(weight.device(), ValueError);
  CHECK_THROWS_AS(weight.to(cpu()), ValueError);
  weight.initialize(gluon::init::One(), cpu());
  CHECK(weight.is_deferred());
  CHECK_THROWS_WITH(weight.data(), contains("(2, 0)") && contains("forward"));
  weight.complete({2, 3});
  CHECK_FALSE(weight.is_deferred());
  CHECK(weight.shape() == Shape{2, 3});
  CHECK(values(weight.data()) == std::vector<float>(6, 1));
  CHECK_THROWS_AS(weight.complete({2, 4}), ShapeError);
  CHECK_THROWS_AS(Parameter("", {}), ValueError);
}

TEST_CASE("a shape whose array cannot be made is forgotten", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2, 0}});
  const auto narrow = [](const NDArray& array) {
    if (array.shape()[1] > 3)
      throw ValueError("too wide");
    array.assign(1);
  };
  weight.initialize(narrow, cpu());
  CHECK_THROWS_WITH(weight.complete({2, 4}), contains("too wide"));
  CHECK(weight.shape() == Shape{2, 0});
  CHECK(weight.is_deferred());
  weight.complete({2, 3});
  CHECK(weight.shape() == Shape{2, 3});
  CHECK(values(weight.data()) == std::vector<float>(6, 1));
}

TEST_CASE("set_data copies, casts, and initialises", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2, 0}});
  NDArray given = array<double>({1, 2, 3, 4}, {2, 2});
  weight.set_data(given);
  given.assign(9);
  CHECK(weight.data().dtype() == float32);
  CHECK(values(weight.data()) == std::vector<float>{1, 2, 3, 4});
  const NDArray before = weight.data();
  weight.set_data(array<float>({5, 6, 7, 8}, {2, 2}));
  CHECK(weight.data().same(before));
  CHECK(values(before) == std::vector<float>{5, 6, 7, 8});
  CHECK_THROWS_AS(weight.set_data(given.reshape({4})), ShapeError);
  CHECK_THROWS_AS(weight.set_data(zeros({2, 3})), ShapeError);
}

TEST_CASE("a gradient is fresh after backward, not after step or zero_grad", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2}, .init = gluon::init::One()});
  weight.initialize({}, cpu());
  CHECK_FALSE(weight.grad_is_fresh());
  const auto backward = [&] {
    NDArray y;
    {
      autograd::RecordScope record;
      y = weight.data() * 3;
    }
    y.backward();
  };
  backward();
  CHECK(weight.grad_is_fresh());
  CHECK(values(weight.grad()) == std::vector<float>{3, 3});
  weight.mark_grad_used();
  CHECK_FALSE(weight.grad_is_fresh());
  for (int times = 0; times < 5; ++times) {
    backward();
    CHECK(weight.grad_is_fresh());  // whatever buffer the gradient has got
  }
  weight.zero_grad();
  CHECK_FALSE(weight.grad_is_fresh());
  CHECK(values(weight.grad()) == std::vector<float>{0, 0});
}

TEST_CASE("grad_req adds, writes, or leaves out", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {1}, .init = gluon::init::One()});
  weight.initialize({}, cpu());
  const auto backward = [&] {
    NDArray y;
    {
      autograd::RecordScope record;
      y = weight.data() * 3 + array<float>({0}) * weight.data();
    }
    y.backward();
  };
  weight.set_grad_req(GradReq::add);
  backward();
  backward();
  CHECK(values(weight.grad()) == std::vector<float>{6});
  weight.set_grad_req(GradReq::null);
  CHECK_THROWS_AS(weight.grad(), ValueError);
  CHECK_FALSE(weight.data().requires_grad());
}

TEST_CASE("cast keeps the value and starts the gradient anew", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2}, .init = gluon::init::Constant(1.5)});
  weight.initialize({}, cpu());
  weight.cast(float64);
  CHECK(weight.data().dtype() == float64);
  CHECK(weight.grad().dtype() == float64);
  CHECK(values(weight.data()) == std::vector<float>{1.5, 1.5});
  CHECK_THROWS_AS(weight.cast(int32), DTypeError);
}

TEST_CASE("copies of a parameter name one parameter", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2}});
  const Parameter copy = weight;
  copy.initialize(gluon::init::One(), cpu());
  CHECK(weight.is_initialized());
  CHECK(weight.same(copy));
  CHECK(weight.data().same(copy.data()));
}

TEST_CASE("a dictionary of parameters keeps their order and refuses strangers", "[gluon][parameter]") {
  ParameterDict dict;
  dict.insert("b", Parameter("b", {.shape = {1}}));
  dict.insert("a", Parameter("a", {.shape = {1}}));
  CHECK(dict.names() == "b, a");
  CHECK(dict["a"].name() == "a");
  CHECK(dict.contains("b"));
  CHECK_THROWS_WITH(dict["c"], contains("b, a"));
  CHECK_THROWS_AS(dict.insert("a", Parameter("a", {})), ValueError);
}

TEST_CASE("Others may ask where a parameter is to be while its initialiser runs", "[gluon][parameter]") {
  Parameter weight("weight", {.shape = {2, 0}});
  int asked = 0;
  weight.initialize(
      [&](const NDArray& array) {
        std::thread([&] {
          asked = weight.is_deferred() + !weight.is_initialized() + (weight.device() == cpu());
        }).join();
        array.assign(7);
      },
      cpu());
  weight.complete({2, 3});
  CHECK(asked == 3);
  CHECK_FALSE(weight.is_deferred());
  CHECK(weight.device() == cpu());
  CHECK(values(weight.data()) == std::vector<float>(6, 7));
}
