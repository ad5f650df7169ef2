// Options of layers away from their defaults, by what they give; BatchNormReLU.
#include <algorithm>
#include <vector>

#include <sluice/operator/norm/norm.h>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

/// A transposed convolution of two groups is two of them, each of half the channels.
template <class Layer, class Options>
void check_groups(const NDArray& x) {
  Options two, one;
  two.groups = 2;
  Layer whole(6, 2, two), first(3, 2, one), second(3, 2, one);
  whole.initialize(gluon::init::Normal(1));
  const NDArray left = x.slice(1, 0, 2), right = x.slice(1, 2, 4);
  const NDArray y = whole(x);
  CHECK(whole.own_parameter("weight").shape()[1] == 3);
  const NDArray weight = whole.own_parameter("weight").data();
  whole.own_parameter("bias").set_data(arange(0, 6));
  first.initialize();
  second.initialize();
  (void)first(left);
  (void)second(right);
  first.own_parameter("weight").set_data(weight.slice(0, 0, 2));
  second.own_parameter("weight").set_data(weight.slice(0, 2, 4));
  first.own_parameter("bias").set_data(arange(0, 3));
  second.own_parameter("bias").set_data(arange(3, 6));
  CHECK(differences(whole(x), concat({first(left), second(right)}, 1), {1e-5, 1e-5}) == "");
  CHECK(differences(whole(x), y) != "");  // the bias counts
}

/// Without a bias it is what a bias of zeros gives, and there is no such parameter.
template <class Layer, class Options>
void check_without_bias(const NDArray& x) {
  Options plain;
  plain.use_bias = false;
  Layer with(3, 2), without(3, 2, plain);
  with.initialize(gluon::init::Normal(1));
  without.initialize();
  (void)with(x);
  (void)without(x);
  CHECK(without.collect_params().names() == "weight");
  without.own_parameter("weight").set_data(with.own_parameter("weight").data());
  CHECK(values(without(x)) == values(with(x)));
  with.own_parameter("bias").set_data(full({3}, 2));
  CHECK(values(without(x) + 2.0) == values(with(x)));
}

/// After a step on the sum of squares of what it gives: beta stays zeros where it is not trained.
template <class Layer, class Options>
void check_center(const NDArray& x) {
  for (const bool center : {true, false}) {
    CAPTURE(center);
    Options options;
    options.center = center;
    options.scale = true;
    Layer layer(options);
    layer.initialize();
    (void)layer(x);
    const gluon::Parameter &beta = layer.own_parameter("beta"), &gamma = layer.own_parameter("gamma");
    CHECK(beta.grad_req() == (center ? GradReq::write : GradReq::null));
    CHECK(gamma.grad_req() == GradReq::write);
    Trainer trainer(layer.collect_params(), SGD({.learning_rate = 0.1}));
    {
      const autograd::RecordScope record;
      sum(square(layer(x) - 1.0)).backward();
    }
    trainer.step(1);
    const std::vector<float> zeros(static_cast<std::size_t>(beta.data().size()));
    CHECK((values(beta.data()) == zeros) == !center);
    CHECK(values(gamma.data()) != values(ones_like(gamma.data())));
  }
}

}  // namespace

TEST_CASE("Transposed convolutions of groups, and without a bias", "[gluon][layers]") {
  const NDArray rows = pattern_array({2, 4, 5}), volumes = pattern_array({2, 4, 2, 3, 2});
  check_groups<nn::Conv1DTranspose, nn::Conv1DTransposeOptions>(rows);
  check_groups<nn::Conv3DTranspose, nn::Conv3DTransposeOptions>(volumes);
  check_without_bias<nn::Conv1DTranspose, nn::Conv1DTransposeOptions>(rows);
  check_without_bias<nn::Conv3DTranspose, nn::Conv3DTransposeOptions>(volumes);
}

TEST_CASE("Group and instance norm leave beta as it is where they do not centre", "[gluon][layers]") {
  const NDArray x = pattern_array({2, 4, 6});
  check_center<nn::GroupNorm, nn::GroupNormOptions>(x);
  check_center<nn::InstanceNorm, nn::InstanceNormOptions>(x);
}

TEST_CASE("Pools keep the last window in ceil_mode, though it hangs over the edge", "[gluon][layers]") {
  const NDArray x = arange(0, 9).reshape({1, 1, 3, 3});
  CHECK(nn::MaxPool2D(2)(x).shape() == Shape{1, 1, 1, 1});
  CHECK(values(nn::MaxPool2D(2)(x)) == std::vector<float>{4});
  CHECK(values(nn::MaxPool2D(2, {.ceil_mode = true})(x)) == std::vector<float>{4, 5, 7, 8});
  CHECK(values(nn::AvgPool2D(2)(x)) == std::vector<float>{2});
  CHECK(values(nn::AvgPool2D(2, {.ceil_mode = true})(x)) == std::vector<float>{2, 3.5, 6.5, 8});
}

TEST_CASE("Embeddings and slopes of other types", "[gluon][layers]") {
  for (const DType dtype : {float64, float16}) {
    CAPTURE(dtype);
    nn::Embedding rows(3, 2, {.dtype = dtype});
    rows.initialize();
    rows.own_parameter("weight").set_data(arange(0, 6).reshape({3, 2}).astype(dtype));
    const NDArray y = rows(array<std::int32_t>({2, 0}));
    CHECK(y.dtype() == dtype);
    CHECK(values(y) == std::vector<float>{4, 5, 0, 1});
    nn::PReLU slope({.alpha_initializer = gluon::init::Constant(0.5), .dtype = dtype});
    slope.initialize();
    const NDArray z = slope(array<float>({-4, 2}).astype(dtype));
    CHECK(slope.own_parameter("alpha").dtype() == dtype);
    CHECK(z.dtype() == dtype);
    CHECK(values(z) == std::vector<float>{-2, 2});
  }
}

namespace {

/// Trains this for two steps; results of training and prediction, gradients and statistics.
template <class Net>
std::vector<std::vector<float>> trail(Net& net, Device device, DType dtype, bool hybrid) {
  Engine::current().seed(5);
  net.initialize(gluon::init::Xavier(), device);
  NDArray x = pattern_array({4, 8, 4, 4}, 0, device).astype(dtype);
  x.attach_grad();
  (void)net(x.astype(float32));
  net.cast(dtype);
  if (hybrid)
    net.hybridize();
  std::vector<std::vector<float>> all;
  for (int i = 0; i < 2; ++i) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = net(x);
      sum(y * pattern_array({4, 8, 4, 4}, 7, device).astype(dtype)).backward();
    }
    all.push_back(values(y));
    all.push_back(values(x.grad()));
  }
  all.push_back(values(net(x)));
  for (const auto& [name, parameter] : net.collect_params()) {
    all.push_back(values(parameter.data()));
    if (parameter.grad_req() != GradReq::null)
      all.push_back(values(parameter.grad()));
  }
  return all;
}

void check_batch_norm_relu(Device device) {
  for (const DType dtype : {float32, float16}) {
    for (const bool global : {false, true}) {
      CAPTURE(dtype, global);
      const nn::BatchNormOptions options{.momentum = 0.5, .use_global_stats = global};
      std::vector<std::vector<std::vector<float>>> all;
      for (const bool hybrid : {false, true}) {
        nn::Sequential one, two;
        one.add(nn::BatchNormReLU(options));
        two.add(nn::BatchNorm(options), nn::Activation("relu"));
        all.push_back(trail(one, device, dtype, hybrid));
        all.push_back(trail(two, device, dtype, hybrid));
      }
      CHECK((all[0] == all[1]));
      CHECK((all[2] == all[3]));
      CHECK((all[0] == all[2]));
      CHECK(*std::min_element(all[0][0].begin(), all[0][0].end()) == 0);
    }
  }
}

}  // namespace

TEST_CASE("BatchNormReLU is BatchNorm and relu, by hand and as a graph", "[gluon][layers][graph]") {
  check_batch_norm_relu(cpu());
  nn::BatchNormReLU layer({.in_channels = 2});
  CHECK(layer.collect_params().names() == "gamma, beta, running_mean, running_var");
  layer.cast(float16);
  CHECK(layer.own_parameter("gamma").dtype() == float32);
  CHECK_THROWS_AS(nn::BatchNormReLU({.epsilon = 0}), ValueError);
}
TEST_CASE("BatchNormReLU on a GPU is BatchNorm and relu", "[gluon][layers][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_batch_norm_relu(gpu());
}
