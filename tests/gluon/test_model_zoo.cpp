// Models of the zoo: as many parameters as MXNet's and torchvision's, results of the right shape.
#include <map>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace zoo = sluice::gluon::model_zoo::vision;

namespace {

struct Published {
  std::int64_t trained, running;
};

// Of MXNet 1.9.1; those of v1b are torchvision's.
const std::map<std::string, Published> k_published = {
    {"lenet", {61706 + 990 * 85, 0}},  // LeNet-5's, of more classes
    {"alexnet", {61100840, 0}},
    {"vgg11", {132863336, 0}},
    {"vgg13", {133047848, 0}},
    {"vgg16", {138357544, 0}},
    {"vgg19", {143667240, 0}},
    {"vgg11_bn", {132868840, 5504}},
    {"vgg13_bn", {133053736, 5888}},
    {"vgg16_bn", {138365992, 8448}},
    {"vgg19_bn", {143678248, 11008}},
    {"resnet18_v1", {11689512, 9600}},
    {"resnet34_v1", {21797672, 17024}},
    {"resnet50_v1", {25575912, 53120}},
    {"resnet101_v1", {44589800, 105344}},
    {"resnet152_v1", {60252648, 151424}},
    {"resnet18_v1b", {11689512, 9600}},
    {"resnet34_v1b", {21797672, 17024}},
    {"resnet50_v1b", {25557032, 53120}},
    {"resnet101_v1b", {44549160, 105344}},
    {"resnet152_v1b", {60192808, 151424}},
    {"resnet18_v2", {11687848, 7948}},
    {"resnet34_v2", {21796008, 15372}},
    {"resnet50_v2", {25549480, 45580}},
    {"resnet101_v2", {44541608, 97804}},
    {"resnet152_v2", {60185256, 143884}},
    {"squeezenet1.0", {1248424, 0}},
    {"squeezenet1.1", {1235496, 0}},
    {"densenet121", {7978856, 83648}},
    {"densenet161", {28681000, 219936}},
    {"densenet169", {14149480, 158400}},
    {"densenet201", {20013928, 229056}},
    {"inceptionv3", {23834568, 34432}},
    {"mobilenet1.0", {4231976, 21888}},
    {"mobilenet0.75", {2585560, 16416}},
    {"mobilenet0.5", {1331592, 10944}},
    {"mobilenet0.25", {470072, 5472}},
    {"mobilenetv2_1.0", {3504960, 34176}},
    {"mobilenetv2_0.75", {2627592, 26272}},
    {"mobilenetv2_0.5", {1964736, 18368}},
    {"mobilenetv2_0.25", {1516392, 10464}},
    // Of torchvision 0.29.
    {"mobilenetv2b_1.0", {3504872, 34112}},
    {"mobilenet_v3_large", {5483032, 24400}},
    {"mobilenet_v3_small", {2542856, 12112}},
    {"resnext50_32x4d", {25028904, 68224}},
    {"resnext101_32x8d", {88791336, 202880}},
    {"resnext101_64x4d", {83455272, 202880}},
    {"wide_resnet50_2", {68883240, 68224}},
    {"wide_resnet101_2", {126886696, 137856}},
    {"efficientnet_b0", {5288548, 42016}},
    {"efficientnet_b1", {7794184, 62048}},
    {"efficientnet_b2", {9109994, 67568}},
    {"efficientnet_b3", {12233232, 87296}},
    {"efficientnet_b4", {19341616, 125200}},
    {"efficientnet_b5", {30389784, 172736}},
    {"efficientnet_b6", {43040704, 224432}},
    {"efficientnet_b7", {66347960, 310720}},
};

std::int64_t size_of_images(const std::string& name) {
  return name == "lenet" ? 28 : name == "inceptionv3" ? 299 : 224;
}

void check_published(const std::string& name) {
  CAPTURE(name);
  zoo::Classifier net = zoo::get_model(name);
  net.initialize([](const NDArray&) {});  // nothing is written: memory that nobody touches is none
  const std::int64_t size = size_of_images(name);
  const gluon::Summary found = net.summary(abstract_array({{2, name == "lenet" ? 1 : 3, size, size}, float32, cpu()}));
  const Published& wanted = k_published.at(name);
  CHECK(found.trained_parameters == wanted.trained);
  CHECK(found.other_parameters == wanted.running);
  CHECK(found.layers.front().outputs.front() == Shape{2, 1000});
}

}  // namespace

TEST_CASE("All models have as many parameters as published", "[gluon][model_zoo]") {
  const std::vector<std::string> names = zoo::model_names();
  CHECK(names.size() == k_published.size());
  for (const std::string& name : names)
    check_published(name);
}

TEST_CASE("Models give logits of as many classes as asked, hybridized the same, and train", "[gluon][model_zoo]") {
  const std::map<std::string, std::int64_t> sizes{
      {"lenet", 28},
      {"squeezenet1.1", 224},
      {"mobilenet0.25", 64},
      {"mobilenetv2_0.25", 64},
      {"mobilenetv2b_1.0", 32},
      {"mobilenet_v3_small", 32},
      {"efficientnet_b0", 32},
      {"resnext50_32x4d", 32}};
  for (const auto& [name, size] : sizes) {
    CAPTURE(name);
    random::seed(4);
    zoo::Classifier net = zoo::get_model(name, {.classes = 7});
    net.initialize(gluon::init::Xavier());
    const NDArray x = random_array({2, 3, size, size}, 5);
    const NDArray plain = net(x);
    CHECK(plain.shape() == Shape{2, 7});
    CHECK(isfinite(plain).to_vector<bool>() == std::vector<bool>(14, true));
    net.hybridize();
    CHECK(values(net(x)) == values(plain));
    CHECK(net(concat({x, x}, 0)).shape() == Shape{4, 7});
    CHECK(net.hybrid_traces() == 1);  // of batches of all sizes
    CHECK(net.features()(x).shape()[0] == 2);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = SoftmaxCrossEntropyLoss()(net(x), array<std::int32_t>({3, 6}));
    }
    loss.backward();
    int reached = 0, trained = 0;
    for (const auto& [path, parameter] : net.collect_params()) {
      if (parameter.grad_req() == GradReq::null)
        continue;
      ++trained;
      reached += isfinite(sum(abs(parameter.grad()))).item<bool>() ? 1 : 0;
    }
    CHECK(reached == trained);
  }
}

TEST_CASE("A network of one's own on the features of a model", "[gluon][model_zoo]") {
  zoo::Classifier net = zoo::mobilenet(0.25, {.classes = 3});
  net.replace("output", gluon::nn::Dense(5));
  net.initialize(gluon::init::Xavier());
  CHECK(net(random_array({1, 3, 64, 64}, 1)).shape() == Shape{1, 5});
  CHECK(net.collect_params("^output").size() == 2);
}

TEST_CASE("Layers that halve images are not gone round, however few channels there are", "[gluon][model_zoo]") {
  zoo::Classifier net = zoo::mobilenet_v2(0.07, {.classes = 2});  // 16 and 24 channels become one
  net.initialize();
  CHECK(net(random_array({1, 3, 64, 64}, 1)).shape() == Shape{1, 2});
}

TEST_CASE("Models that there are none of are refused, by name and number", "[gluon][model_zoo]") {
  try {
    zoo::get_model("resnet51_v1");
    FAIL("no error");
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()).find("resnet50_v1,") != std::string::npos);
  }
  CHECK_THROWS_AS(zoo::vgg(12), ValueError);
  CHECK_THROWS_AS(zoo::resnet(3, 50), ValueError);
  CHECK_THROWS_AS(zoo::resnet(1, 51), ValueError);
  CHECK_THROWS_AS(zoo::resnet_v1b(0), ValueError);
  CHECK_THROWS_AS(zoo::densenet(120), ValueError);
  CHECK_THROWS_AS(zoo::squeezenet("2.0"), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet(0), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet_v2(0.01), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet(INFINITY), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet_v2b(0), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet_v3_large(-1), ValueError);
  CHECK_THROWS_AS(zoo::mobilenet_v3_small(NAN), ValueError);
  CHECK_THROWS_AS(zoo::efficientnet(8), ValueError);
  CHECK_THROWS_AS(zoo::efficientnet(-1), ValueError);
  CHECK_THROWS_AS(zoo::resnext(18), ValueError);
  CHECK_THROWS_AS(zoo::resnext(50, 0), ValueError);
  CHECK_THROWS_AS(zoo::resnext(50, 32, 1025), ValueError);
  CHECK_THROWS_AS(zoo::wide_resnet(34), ValueError);
  CHECK_THROWS_AS(zoo::wide_resnet(50, 0), ValueError);
  CHECK_THROWS_AS(zoo::alexnet({.classes = 0}), ValueError);
}

TEST_CASE("DropPath leaves whole samples out in training, and scales the others", "[gluon][layers]") {
  random::seed(7);
  gluon::nn::DropPath layer(0.25);
  const NDArray x = random_array({4000, 3, 2}, 1, 1, 2);
  CHECK(values(layer(x)) == values(x));
  NDArray y, input = x.copy();
  input.attach_grad();
  {
    const autograd::RecordScope record;
    y = layer(input);
  }
  y.backward();
  const std::vector<float> found = values(y), given = values(x), slopes = values(input.grad());
  int kept = 0;
  bool whole = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float scale = found[i - i % 6] == 0 ? 0.0f : 1 / 0.75f;
    whole = whole && found[i] == Approx(given[i] * scale) && slopes[i] == Approx(scale);
    kept += i % 6 == 0 && scale != 0 ? 1 : 0;
  }
  CHECK(whole);
  CHECK(kept > 2880);  // 3000 but for four and a half deviations
  CHECK(kept < 3120);
  const autograd::TrainScope training;
  CHECK(values(gluon::nn::DropPath(1)(full({3, 2}, INFINITY))) == std::vector<float>(6, 0));
  CHECK(values(gluon::nn::DropPath(0)(x)) == values(x));
  CHECK(layer(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(layer(ones({5})).shape() == Shape{5});
  CHECK(layer(ones({5, 2}).astype(bfloat16)).dtype() == bfloat16);
  CHECK(layer(ones({1}).broadcast_to({5, 2})).shape() == Shape{5, 2});
  layer.hybridize();
  random::seed(3);
  const std::vector<float> graph = values(layer(x));
  layer.hybridize(false);
  random::seed(3);
  CHECK(values(layer(x)) == graph);
  CHECK_THROWS_AS(layer(ones({})), ShapeError);
  CHECK_THROWS_AS(gluon::nn::DropPath(-0.1), ValueError);
  CHECK_THROWS_AS(gluon::nn::DropPath(1.5), ValueError);
  CHECK_THROWS_AS(gluon::nn::DropPath(NAN), ValueError);
}

TEST_CASE("Blocks side by side are joined, and what goes round them is added", "[gluon][layers]") {
  using namespace gluon;
  const NDArray x = random_array({2, 3}, 1);
  nn::Concurrent both(1);
  CHECK_THROWS_AS(both(x), ValueError);
  both.add(nn::Identity(), nn::Lambda([](const NDArray& y) { return y * 2; }));
  CHECK(values(both(x)) == values(concat({x, x * 2}, 1)));
  both.add(nn::Lambda([](const NDArray& y) { return y.T(); }));
  CHECK_THROWS_AS(both(x), ShapeError);
  const auto twice = [] { return std::make_shared<nn::Lambda>([](const NDArray& y) { return y * 2; }); };
  const auto minus = [] { return std::make_shared<nn::Lambda>([](const NDArray& y) { return -y; }); };
  CHECK(values(nn::Residual(twice())(x)) == values(relu(x * 2 + x)));
  CHECK(values(nn::Residual(twice(), {}, false)(x)) == values(x * 2 + x));
  CHECK(values(nn::Residual(twice(), minus())(x)) == values(relu(x * 2 - x)));
  CHECK_THROWS_AS(nn::Residual(nullptr), ValueError);
}
