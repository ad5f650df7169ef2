// A network for values of the host: what it gives, what it sees, and how it fails.
#include <string>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;
namespace nn = gluon::nn;

namespace {

void gives_what_the_network_gives(const std::string& name, Device device) {
  INFO(name);
  nn::Sequential net = sample_network(name);
  net.initialize(gluon::init::Xavier(), device);
  const Shape shape = name == "mlp" ? Shape{2, 30} : Shape{2, 1, 12, 12};
  const Predictor predict(net, zeros(shape, {.device = device}));
  REQUIRE(predict.inputs().size() == 1);
  REQUIRE(predict.outputs().size() == 1);
  CHECK(predict.outputs()[0].shape == Shape{2, 10});
  for (int i = 0; i < 5; ++i) {
    const std::vector<float> x = pattern(shape.size(), 7 * i);
    std::vector<float> y(20, -1);
    predict(x, y);
    check_near(y, values(net(array(x, shape, device))), 1e-4);
  }
  const Predictor::Counts counts = predict.counts();
  CHECK(counts.launched + counts.pushed == 5);
  CHECK(counts.launched == (device.is_gpu() ? 5 : 0));
}

// Filled with a number on the device, without a wait: the next request has it.
void sees_what_was_pushed(Device device) {
  nn::Dense net(3, {.use_bias = false, .in_units = 4});
  net.initialize(gluon::init::One(), device);
  const Predictor predict(net, zeros({1, 4}, {.device = device}));
  const NDArray weight = net.collect_params()["weight"].data();
  const std::vector<float> x{1, 2, 3, 4};
  std::vector<float> y(3);
  for (int i = 0; i < 50; ++i) {
    fill(weight, i);
    predict(x, y);
    CHECK(y == std::vector<float>(3, 10.0f * static_cast<float>(i)));
    predict(x, y);
    CHECK(y == std::vector<float>(3, 10.0f * static_cast<float>(i)));
  }
  if (device.is_gpu())
    CHECK(predict.counts().launched >= 50);
}

// Whatever it keeps of them; a norm folded into the convolution, or not.
void sees_changed_parameters(Device device) {
  nn::Sequential net;
  net.add(
      nn::Conv2D(8, 3, {.use_bias = false, .in_channels = 8}),
      nn::BatchNorm({.in_channels = 8}),
      nn::Activation("relu"));
  net.initialize(gluon::init::Xavier(), device);
  const Shape shape{2, 8, 6, 5};
  for (const graph::Rounding rounding : {graph::Rounding::as_by_hand, graph::Rounding::once}) {
    for (const bool keep : {true, false}) {
      CAPTURE(static_cast<int>(rounding), keep);
      const Predictor predict(net, zeros(shape, {.device = device}), {.rounding = rounding, .keep_derived = keep});
      std::vector<float> y(2 * 8 * 4 * 3);
      for (const char* name : {"0.weight", "1.gamma", "1.running_mean", "1.running_var", "1.beta"}) {
        CAPTURE(name);
        for (int i = 0; i < 3; ++i) {
          const std::vector<float> x = pattern(shape.size(), 7 * i);
          predict(x, y);
          const std::vector<float> wanted = values(net(array(x, shape, device)));
          if (rounding == graph::Rounding::once || device.is_gpu())
            check_near(y, wanted, 1e-4);
          else
            CHECK(y == wanted);
        }
        const Parameter one = net.collect_params()[name];
        one.data().assign(abs(one.data()) * 0.5 + 0.75);
      }
    }
  }
}

/// Two arrays in, of two types; two out, one of them turned: it does not lie row by row.
struct Two final : gluon::Block {
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 2);
    return {(inputs[0] * 2.0).transpose(), sum(inputs[0] + inputs[1].astype(float32))};
  }
};

void takes_and_gives_several(Device device) {
  const Two net;
  const ArrayOptions ints{.dtype = int32, .device = device};
  const Predictor predict(net, {zeros({2, 3}, {.device = device}), zeros({2, 3}, ints)});
  for (int turn = 1; turn < 4; ++turn) {
    const std::vector<float> a{1, 2, 3, 4, 5, static_cast<float>(turn)};
    const std::vector<std::int32_t> b{10, 20, 30, 40, 50, turn};
    std::vector<float> turned(6), total(1);
    const graph::HostValues in[] = {{a.data(), float32, 6}, {b.data(), int32, 6}};
    const graph::HostRoom out[] = {{turned.data(), float32, 6}, {total.data(), float32, 1}};
    predict.run(in, out);
    CHECK(turned == std::vector<float>{2, 8, 4, 10, 6, 2.0f * static_cast<float>(turn)});
    CHECK(total[0] == 165.0f + 2.0f * static_cast<float>(turn));
  }
}

void names_what_is_wrong(Device device) {
  const NDArray table = ones({5, 2}, {.device = device});
  const nn::Lambda net([table](const NDArray& x) { return take(table, x); });
  const Predictor predict(net, zeros({3}, {.dtype = int32, .device = device}));
  std::vector<std::int32_t> x{0, 4, 2};
  std::vector<float> y(6);
  predict(x, y);
  CHECK(y == std::vector<float>(6, 1));
  std::vector<float> few(5);
  CHECK_THROWS_AS(predict(x, few), ShapeError);
  CHECK_THROWS_AS(predict(std::vector<std::int32_t>{1}, y), ShapeError);
  CHECK_THROWS_AS(predict(std::vector<float>{0, 1, 2}, y), DTypeError);
  CHECK_THROWS_AS(predict.run({}, {}), ValueError);
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<std::int32_t> beyond{0, 5, 2};
    CHECK_THROWS_AS(predict(beyond, y), IndexError);
    predict(x, y);
    CHECK(y == std::vector<float>(6, 1));
  }
}

void sees_changes(Device device) {
  nn::Sequential net;
  net.add(nn::Dense(2, {.use_bias = false, .in_units = 2}), nn::Activation("relu"));
  net.initialize(gluon::init::One(), device);
  const Predictor predict(net, zeros({1, 2}, {.device = device}));
  const std::vector<float> x{-1, -2};
  std::vector<float> y(2);
  predict(x, y);
  CHECK(y == std::vector<float>{0, 0});
  net.replace("1", nn::Lambda([](const NDArray& a) { return -a; }));
  predict(x, y);
  CHECK(y == std::vector<float>{3, 3});
  net.initialize(gluon::init::Constant(2), device, true);
  predict(x, y);
  CHECK(y == std::vector<float>{6, 6});
  const nn::Dense other(3);  // nothing of this network's
  predict(x, y);
  CHECK(y == std::vector<float>{6, 6});
}

void works_in_tasks_and_traces(Device device) {
  Engine engine;
  const EngineScope here(engine);
  nn::Dense net(2, {.in_units = 3});
  net.initialize(gluon::init::One(), device);
  const Predictor predict(net, zeros({1, 3}, {.device = device}));
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2), in_task(2);
  predict(x, y);
  const auto pushed = predict.counts().pushed;
  engine.push({.name = "asks"}, [&] { predict(x, in_task); });
  engine.wait_all();
  CHECK(in_task == std::vector<float>{6, 6});
  engine.start_trace();
  predict(x, y);
  engine.wait_all();
  CHECK(!engine.stop_trace().events().empty());
  CHECK(y == std::vector<float>{6, 6});
  CHECK(predict.counts().pushed == pushed + 2);
  predict(x, y);
  engine.wait_all();
  engine.stop();
  CHECK_THROWS_AS(predict(x, y), EngineStopped);
  engine.restart();
  y = {0, 0};
  predict(x, y);
  CHECK(y == std::vector<float>{6, 6});
}

}  // namespace

TEST_CASE("A predictor gives what the network gives", "[gluon][predictor]") {
  gives_what_the_network_gives("mlp", cpu());
  gives_what_the_network_gives("tf", cpu());
}
TEST_CASE("A predictor gives what the network gives, on a GPU by one launch", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  gives_what_the_network_gives("mlp", gpu(0));
  gives_what_the_network_gives("tf", gpu(0));
}

TEST_CASE("A request sees what was pushed on the parameters before it", "[gluon][predictor]") {
  sees_what_was_pushed(cpu());
}
TEST_CASE("A request of a GPU sees what was pushed on the parameters before it", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  sees_what_was_pushed(gpu(0));
}

TEST_CASE("A predictor takes and gives several arrays", "[gluon][predictor]") {
  takes_and_gives_several(cpu());
}
TEST_CASE("A predictor of a GPU takes and gives several arrays", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  takes_and_gives_several(gpu(0));
}

TEST_CASE("Errors of a request are typed, and the next one is right", "[gluon][predictor]") {
  names_what_is_wrong(cpu());
}
TEST_CASE("Errors of a request on a GPU are typed, and the next one is right", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  names_what_is_wrong(gpu(0));
}

TEST_CASE("A predictor sees changes of its network", "[gluon][predictor]") {
  sees_changes(cpu());
}
TEST_CASE("A predictor of a GPU sees changes of its network", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  sees_changes(gpu(0));
}

TEST_CASE("A predictor sees parameters that change, whatever it keeps of them", "[gluon][predictor][derived]") {
  sees_changed_parameters(cpu());
}
TEST_CASE("A predictor of a GPU sees parameters that change", "[gluon][predictor][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  sees_changed_parameters(gpu(0));
}

TEST_CASE("A predictor works in tasks, under a trace, and not when the engine has stopped", "[gluon][predictor]") {
  works_in_tasks_and_traces(cpu());
}
TEST_CASE("So does a predictor of a GPU", "[gluon][predictor][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  works_in_tasks_and_traces(gpu(0));
}

TEST_CASE("A predictor refuses what it cannot trace", "[gluon][predictor]") {
  nn::Dense net(2);
  CHECK_THROWS_AS(Predictor(net, zeros({1, 2})), ValueError);  // not initialised
  net.initialize(gluon::init::One());
  CHECK_THROWS_AS(Predictor(net, NDArray()), ValueError);
  CHECK_THROWS_AS(Predictor(net, std::vector<NDArray>()), ValueError);
  const nn::Lambda looks([](const NDArray& x) { return x * x.item<float>(); });
  CHECK_THROWS_AS(Predictor(looks, zeros({1})), ValueError);
  const Predictor predict(net, zeros({1, 2}));  // its shape was not known
  std::vector<float> y(2);
  predict(std::vector<float>{1, 2}, y);
  CHECK(y == std::vector<float>{3, 3});
}
