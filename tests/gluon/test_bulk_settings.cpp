// Settings of many parameters at once, and initialisers that know names or whole arrays.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;
namespace init = gluon::init;

namespace {

nn::Sequential network() {
  nn::Sequential net;
  net.add(nn::Dense(3, {.in_units = 2}), nn::BatchNorm({.in_channels = 3}), nn::Dense(1, {.in_units = 3}));
  net.initialize(init::Xavier());
  return net;
}

}  // namespace

TEST_CASE("setattr freezes a part of a network and thaws it, running statistics never", "[gluon][parameter]") {
  nn::Sequential net = network();
  net.collect_params("^0").setattr("grad_req", GradReq::null);
  const NDArray x = pattern_array({4, 2});
  const auto before = values(net[0]->own_parameter("weight").data());
  const auto head = values(net[2]->own_parameter("weight").data());
  Trainer trainer(net.collect_params(), SGD({.learning_rate = 0.5}));
  const auto step = [&] {
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(square(net(x) - 1));
    }
    loss.backward();
    trainer.step(4);
  };
  step();
  CHECK(values(net[0]->own_parameter("weight").data()) == before);
  CHECK(values(net[2]->own_parameter("weight").data()) != head);
  net.setattr("grad_req", GradReq::write);
  CHECK(net[1]->own_parameter("running_mean").grad_req() == GradReq::null);
  CHECK_FALSE(net[1]->own_parameter("running_mean").is_trainable());
  CHECK(net[0]->own_parameter("weight").grad_req() == GradReq::write);
  CHECK(net[0]->own_parameter("weight").is_trainable());
  step();
  net.setattr("grad_req", GradReq::null);
  for (const auto& [name, parameter] : net.collect_params())
    CHECK(parameter.grad_req() == GradReq::null);
}

TEST_CASE("setattr sets factors of all, or of none where one cannot be", "[gluon][parameter]") {
  nn::Sequential net = network();
  net.collect_params("bias|beta|gamma").setattr("wd_mult", 0);
  net.setattr("lr_mult", 0.25);
  for (const auto& [name, parameter] : net.collect_params()) {
    CHECK(parameter.lr_mult() == 0.25);
    const bool is_weight = name.find("weight") != std::string::npos || name.find("running") != std::string::npos;
    CHECK(parameter.wd_mult() == (is_weight ? 1 : 0));
  }
  CHECK_THROWS_AS(net.setattr("lr_mult", -1), ValueError);
  CHECK_THROWS_AS(net.setattr("lr_mult", std::nan("")), ValueError);
  CHECK_THROWS_AS(net.setattr("lr", 1), ValueError);
  CHECK_THROWS_AS(net.setattr("lr_mult", GradReq::null), ValueError);
  CHECK(net[0]->own_parameter("weight").lr_mult() == 0.25);
  net.reset_device(cpu());
  net.collect_params().reset_device(cpu());
  CHECK(net[0]->own_parameter("weight").device() == cpu());
}

TEST_CASE("init::Load takes values by name and the rest from another initialiser", "[gluon][init]") {
  const TemporaryFolder folder(quick_folder());
  nn::Sequential saved = network(), net;
  for (const char* file : {"w.params", "w.npz", "w.safetensors"}) {
    CAPTURE(file);
    saved.save_parameters(folder / file);
    nn::Sequential read;
    read.add(nn::Dense(3), nn::BatchNorm(), nn::Dense(1));  // shapes come with the values
    read.initialize(init::Load(folder / file));
    for (const auto& [name, parameter] : saved.collect_params())
      CHECK(values(read.collect_params()[name].data()) == values(parameter.data()));
  }
  const std::map<std::string, NDArray> arrays{
      {"arg:0.weight", pattern_array({3, 2})}, {"aux:1.running_var", full({3}, 4.0f)}, {"other", ones({1})}};
  net.add(nn::Dense(3), nn::BatchNorm(), nn::Dense(1));
  CHECK_THROWS_AS(net.initialize(init::Load(arrays)), ValueError);  // nothing for 2.weight
  CHECK_FALSE(net.collect_params()["0.weight"].is_initialized());
  net.initialize(init::Load(arrays, init::Constant(0.5)));
  net(ones({1, 2}));
  CHECK(values(net.collect_params()["0.weight"].data()) == pattern(6));
  CHECK(values(net.collect_params()["0.bias"].data()) == std::vector<float>(3));  // its own initialiser
  CHECK(values(net.collect_params()["1.running_var"].data()) == std::vector<float>(3, 4));
  CHECK(values(net.collect_params()["2.weight"].data()) == std::vector<float>(3, 0.5));
  net.initialize(init::Load(std::map<std::string, NDArray>{{"0.weight", ones({3, 2})}}, init::Zero()));
  CHECK(values(net.collect_params()["0.weight"].data()) == pattern(6));  // it was initialised
  net.initialize(init::Load(std::map<std::string, NDArray>{{"0.weight", ones({3, 2})}}, init::Zero()), cpu(), true);
  CHECK(values(net.collect_params()["0.weight"].data()) == std::vector<float>(6, 1));
  nn::Dense small(4);
  CHECK_THROWS_AS(small.initialize(init::Load({{"weight", ones({3, 2})}})), ShapeError);
  CHECK_THROWS_AS(init::Load({{"weight", NDArray()}}), ValueError);
  CHECK_THROWS_AS(init::Load(folder / "none.npz"), FileError);
}

TEST_CASE("init::RNNFused fills each part of rnn()'s parameters by its own initialiser", "[gluon][init]") {
  for (const bool bidirectional : {false, true}) {
    const std::int64_t directions = bidirectional ? 2 : 1, hidden = 3, inputs = 5, layers = 2, rows = 3 * hidden;
    const RnnOptions how{
        .mode = RnnMode::gru, .hidden_size = hidden, .num_layers = layers, .bidirectional = bidirectional};
    const NDArray all = full({rnn_parameter_size(inputs, how)}, -1.0f);
    std::vector<Shape> seen;
    const init::RNNFused fused(
        RnnMode::gru,
        layers,
        hidden,
        {.bidirectional = bidirectional,
         .i2h_weight_initializer =
             [&](const NDArray& part) {
               seen.push_back(part.shape());
               part.assign(1);
             },
         .h2h_weight_initializer = init::Constant(2),
         .i2h_bias_initializer = init::Constant(3),
         .h2h_bias_initializer = {}});
    fused(all);
    std::vector<float> wanted;
    const auto more = [&](std::int64_t count, float value) {
      wanted.insert(wanted.end(), static_cast<std::size_t>(count), value);
    };
    for (std::int64_t i = 0; i < layers * directions; ++i) {
      more(rows * (i < directions ? inputs : directions * hidden), 1);
      more(rows * hidden, 2);
    }
    for (std::int64_t i = 0; i < layers * directions; ++i) {
      more(rows, 3);
      more(rows, -1);
    }
    CHECK(values(all) == wanted);
    CHECK(seen.front() == Shape{rows, inputs});
    CHECK(seen.back() == Shape{rows, directions * hidden});
    CHECK_THROWS_AS(fused(zeros({all.size() + 1})), ShapeError);
  }
  CHECK_THROWS_AS(init::RNNFused(RnnMode::lstm, 0, 3), ValueError);
}

TEST_CASE("init::Load puts values where it is told, whatever place was meant before", "[gluon][init][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const init::Load values_of_weight({{"weight", pattern_array({3, 2})}}, init::Zero());
  nn::Dense deferred(3, {.use_bias = false}), moved(3, {.in_units = 2});
  deferred.initialize(init::Zero());  // waits for its input on the CPU
  moved.initialize(init::Zero());
  deferred.initialize(values_of_weight, gpu(0));
  moved.initialize(values_of_weight, gpu(0), true);
  for (const nn::Dense* layer : {&deferred, &moved}) {
    for (const auto& [name, parameter] : layer->collect_params())
      CHECK(parameter.device() == gpu(0));
    CHECK(values(layer->own_parameter("weight").data()) == pattern(6));
  }
  CHECK(values(deferred(ones({1, 2}, {.device = gpu(0)}))).size() == 3);
}
