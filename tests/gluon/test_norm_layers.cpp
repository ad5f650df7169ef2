// LayerNorm, RMSNorm, GroupNorm and InstanceNorm: parameters, deferred shapes, what they compute.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

struct NormLayer {
  std::string name;
  std::shared_ptr<gluon::Block> block;
  Shape x;
  std::int64_t channels;
  std::string parameters;
  std::function<NDArray(const NDArray& x, const NDArray& gamma, const NDArray& beta)> f;
};

std::vector<NormLayer> norm_layers() {
  return {
      {"LayerNorm",
       std::make_shared<nn::LayerNorm>(),
       {4, 3, 5},
       5,
       "gamma, beta",
       [](auto& x, auto& g, auto& b) { return layer_norm(x, g, b); }},
      {"LayerNorm of channels",
       std::make_shared<nn::LayerNorm>(nn::LayerNormOptions{.axis = 1, .epsilon = 0.5}),
       {4, 3, 5},
       3,
       "gamma, beta",
       [](auto& x, auto& g, auto& b) { return layer_norm(x, g, b, 1, 0.5); }},
      {"RMSNorm",
       std::make_shared<nn::RMSNorm>(nn::RMSNormOptions{.epsilon = 0.25}),
       {4, 6},
       6,
       "gamma",
       [](auto& x, auto& g, auto&) { return rms_norm(x, g, -1, 0.25); }},
      {"GroupNorm",
       std::make_shared<nn::GroupNorm>(nn::GroupNormOptions{.num_groups = 3, .epsilon = 0.5}),
       {2, 6, 4},
       6,
       "gamma, beta",
       [](auto& x, auto& g, auto& b) { return group_norm(x, g, b, 3, 0.5); }},
      {"InstanceNorm",
       std::make_shared<nn::InstanceNorm>(nn::InstanceNormOptions{.epsilon = 0.5, .scale = true}),
       {2, 3, 4},
       3,
       "gamma, beta",
       [](auto& x, auto& g, auto& b) { return instance_norm(x, g, b, 0.5); }},
      {"InstanceNorm of the last axis",
       std::make_shared<nn::InstanceNorm>(nn::InstanceNormOptions{.axis = -1, .epsilon = 0.5, .scale = true}),
       {2, 4, 3},
       3,
       "gamma, beta",
       [](auto& x, auto& g, auto& b) { return instance_norm(x.swapaxes(1, 2), g, b, 0.5).swapaxes(1, 2); }}};
}

}  // namespace

TEST_CASE(
    "Layers that normalise rows find their shapes and compute what their operators do", "[gluon][norm_layers][norms]") {
  for (const NormLayer& layer : norm_layers()) {
    CAPTURE(layer.name);
    layer.block->initialize();
    const NDArray x = random_array(layer.x, 1, -2, 3);
    CHECK(layer.block->collect_params().names() == layer.parameters);
    const NDArray ones_of = ones({layer.channels}), zeros_of = zeros({layer.channels});
    CHECK(values((*layer.block)(x)) == values(layer.f(x, ones_of, zeros_of)));  // as they are initialised
    NDArray gamma = random_array({layer.channels}, 2), beta = random_array({layer.channels}, 3);
    ParameterDict parameters = layer.block->collect_params();
    parameters["gamma"].set_data(gamma);
    if (parameters.contains("beta"))
      parameters["beta"].set_data(beta);
    NDArray y, want;
    gamma.attach_grad();
    {
      const autograd::RecordScope record;
      y = (*layer.block)(x);
      want = layer.f(x, gamma, beta);
    }
    CHECK(values(y) == values(want));
    y.backward();
    want.backward();
    CHECK(values(parameters["gamma"].grad()) == values(gamma.grad()));
    CHECK_THROWS_AS((*layer.block)(random_array({2, 9, 9}, 1)), Error);
  }
}

TEST_CASE(
    "Layers that normalise rows leave out what is not trained, and take half types", "[gluon][norm_layers][norms]") {
  nn::LayerNorm layer({.center = false, .scale = false, .in_channels = 4});
  nn::InstanceNorm instance;
  nn::RMSNorm rms({.scale = false, .in_channels = 4});
  nn::GroupNorm group({.num_groups = 2, .scale = false});
  for (gluon::Block* const block :
       {static_cast<gluon::Block*>(&layer),
        static_cast<gluon::Block*>(&instance),
        static_cast<gluon::Block*>(&rms),
        static_cast<gluon::Block*>(&group)}) {
    block->initialize();
    CHECK(block->collect_params()["gamma"].grad_req() == GradReq::null);
    block->cast(float16);
    const NDArray y = (*block)(random_array({2, 4, 4}, 1).astype(float16));
    CHECK(y.dtype() == float16);
    CHECK(block->collect_params()["gamma"].dtype() == float16);
  }
  CHECK(layer.own_parameter("beta").grad_req() == GradReq::null);
  CHECK(instance.own_parameter("beta").grad_req() == GradReq::write);
}

TEST_CASE(
    "Layers that normalise rows go on after a file that holds some of their parameters",
    "[gluon][norm_layers][norms]") {
  const TemporaryFolder folder;
  save(folder / "part.npz", {{"gamma", full({4}, 3)}});
  nn::LayerNorm layer;
  layer.initialize();
  layer.load_parameters(folder / "part.npz", {.allow_missing = true});
  CHECK(layer(random_array({2, 4}, 1)).shape() == Shape{2, 4});
  CHECK(values(layer.own_parameter("gamma").data()) == std::vector<float>(4, 3));
  CHECK(values(layer.own_parameter("beta").data()) == std::vector<float>(4, 0));
}

TEST_CASE(
    "Layers that normalise rows refuse options that make no sense, and name themselves",
    "[gluon][norm_layers][norms]") {
  CHECK_THROWS_AS(nn::LayerNorm({.epsilon = -1}), ValueError);
  CHECK_THROWS_AS(nn::LayerNorm({.in_channels = -1}), ValueError);
  CHECK_THROWS_AS(nn::RMSNorm({.epsilon = std::nan("")}), ValueError);
  CHECK_THROWS_AS(nn::GroupNorm({.num_groups = 0}), ValueError);
  CHECK_THROWS_AS(nn::InstanceNorm({.in_channels = -2}), ValueError);
  CHECK_THROWS_WITH(nn::GroupNorm({.num_groups = 0}), contains("nn::GroupNorm"));
  nn::LayerNorm layer({.axis = 3});
  layer.initialize();
  CHECK_THROWS_AS(layer(ones({2, 3})), IndexError);
  nn::GroupNorm group({.num_groups = 4});
  group.initialize();
  CHECK_THROWS_AS(group(ones({2, 6})), ValueError);
}
