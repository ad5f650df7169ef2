// Networks that say of each pixel what it is: as many parameters as torchvision's and the papers', results of the right
// shape, as graphs what they are by hand.
#include <array>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::model_zoo::segmentation;

namespace {

struct Published {
  std::int64_t trained, running;
};

/// Without values: nothing is computed, and memory that nobody touches is none.
void check_published(
    gluon::Block& net, const Published& wanted, const std::vector<Shape>& results, std::int64_t in = 3) {
  net.initialize([](const NDArray&) {});
  const gluon::Summary found = net.summary(abstract_array({{2, in, 160, 96}, float32, cpu()}));
  CHECK(found.trained_parameters == wanted.trained);
  CHECK(found.other_parameters == wanted.running);
  CHECK(found.layers.front().outputs == results);
}

void check_graph(gluon::Block& net, const NDArray& x, std::size_t results) {
  random::seed(4);
  net.initialize(gluon::init::Xavier());
  const Arrays plain = net.call(std::array{x});
  REQUIRE(plain.size() == results);
  net.hybridize();
  const Arrays graph = net.call(std::array{x});
  for (std::size_t i = 0; i < results; ++i) {
    CHECK(isfinite(plain[i]).to_vector<bool>() == std::vector<bool>(static_cast<std::size_t>(plain[i].size()), true));
    CHECK(values(graph[i]) == values(plain[i]));
  }
  const Arrays twice = net.call(std::array{concat({x, x}, 0)});
  CHECK(differences(twice[0].slice(0, 2, 4), plain[0], {1e-4, 1e-4}) == "");
  CHECK(net.hybrid_traces() == 1);  // of batches of all sizes
}

}  // namespace

TEST_CASE("FCN and DeepLabV3 have as many parameters as torchvision's", "[gluon][model_zoo]") {
  const Shape one{2, 21, 160, 96};
  SegmentationModel fcn = fcn_resnet(50), fcn_101 = fcn_resnet(101, {.aux = true});
  check_published(fcn, {32957013, 54144}, {one});
  check_published(fcn_101, {54314346, 106880}, {one, one});
  SegmentationModel deep = deeplabv3_resnet(50, {.aux = true}), deep_101 = deeplabv3_resnet(101);
  check_published(deep, {42004074, 57216}, {one, one});
  check_published(deep_101, {58630997, 108928}, {one});
  SegmentationModel mobile = deeplabv3_mobilenet_v3_large({.aux = true});
  check_published(mobile, {11029328, 28004}, {one, one});
  SegmentationModel four = deeplabv3_mobilenet_v3_large({.classes = 4});
  four.initialize([](const NDArray&) {});
  CHECK(
      four.summary(abstract_array({{1, 3, 65, 33}, float32, cpu()})).layers.front().outputs ==
      std::vector<Shape>{{1, 4, 65, 33}});
}

TEST_CASE("UNet has as many parameters as the paper's, with norms or biases", "[gluon][model_zoo]") {
  UNet plain({.classes = 1, .batch_norm = false}), normed({.classes = 1});
  check_published(plain, {31030593, 0}, {{2, 1, 160, 96}}, 1);
  check_published(normed, {31037633, 11776}, {{2, 1, 160, 96}});
}

TEST_CASE("Networks of segmentation are as graphs what they are by hand", "[gluon][model_zoo]") {
  UNet unet({.classes = 3, .channels = 4, .levels = 2}), biased({.channels = 3, .levels = 1, .batch_norm = false});
  check_graph(unet, random_array({2, 3, 16, 24}, 1), 1);
  check_graph(biased, random_array({2, 1, 8, 6}, 1), 1);
  SegmentationModel mobile = deeplabv3_mobilenet_v3_large({.classes = 3, .aux = true});
  check_graph(mobile, random_array({2, 3, 33, 48}, 1), 2);
  SegmentationModel fcn = fcn_resnet(50, {.classes = 2});
  check_graph(fcn, random_array({2, 3, 32, 16}, 1), 1);
}

TEST_CASE("UNet takes what is beside each level, and learns where something lies", "[gluon][model_zoo]") {
  random::seed(1);
  UNet net({.classes = 2, .channels = 4, .levels = 2});
  net.initialize(gluon::init::Xavier());
  const NDArray x = random_array({4, 1, 16, 16}, 3);
  const NDArray labels = (x.squeeze(1) > 0.2).astype(int32);
  SoftmaxCrossEntropyLoss loss({.axis = 1});
  Trainer trainer(net.collect_params(), Adam({.learning_rate = 0.02}));
  gluon::TrainStep step(net, loss, trainer);
  for (int i = 0; i < 60; ++i)
    step(x, labels);
  const NDArray right = (argmax(net(x), 1).astype(int32) == labels).astype(float32);
  CHECK(mean(right).item<double>() > 0.95);  // what is seen at the lowest level alone, of 4 by 4 pixels, does not do
}

TEST_CASE("Networks of segmentation refuse what cannot be", "[gluon][model_zoo]") {
  CHECK_THROWS_AS(fcn_resnet(18), ValueError);
  CHECK_THROWS_AS(fcn_resnet(51), ValueError);
  CHECK_THROWS_AS(fcn_resnet(50, {.classes = 0}), ValueError);
  CHECK_THROWS_AS(deeplabv3_resnet(34), ValueError);
  CHECK_THROWS_AS(deeplabv3_mobilenet_v3_large({.classes = -1}), ValueError);
  CHECK_THROWS_AS(UNet({.classes = 0}), ValueError);
  CHECK_THROWS_AS(UNet({.channels = 0}), ValueError);
  CHECK_THROWS_AS(UNet({.levels = 0}), ValueError);
  CHECK_THROWS_AS(UNet({.levels = 9}), ValueError);
  UNet net({.channels = 2, .levels = 2});
  net.initialize();
  try {
    net(ones({1, 3, 16, 18}));
    FAIL("no error");
  } catch (const ShapeError& error) {
    CHECK(std::string(error.what()).find("4 does not divide height and width of images (16, 18)") != std::string::npos);
  }
  CHECK_THROWS_AS(net(ones({3, 16, 16})), ShapeError);
  CHECK_THROWS_AS(deeplabv3_mobilenet_v3_large()(ones({3, 16, 16})), ShapeError);
  CHECK(net(zeros({0, 3, 8, 8})).shape() == Shape{0, 2, 8, 8});
}
