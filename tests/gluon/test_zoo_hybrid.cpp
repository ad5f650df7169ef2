// Networks of the zoo, one of each family: hybridized they give what they give by hand, and the same gradients.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/model_zoo/segmentation.h>
#include <sluice/gluon/model_zoo/transformers.h>
#include <sluice/gluon/model_zoo/vision.h>

#include "tests/gluon/support.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace zoo = sluice::gluon::model_zoo;

namespace {

/// What a step leaves: what the network gave, gradients of its parameters and of its input, running statistics.
using ZooTrail = std::map<std::string, std::vector<float>>;

ZooTrail step_of(const gluon::Block& net, const NDArray& input) {
  random::seed(9);  // for dropout
  NDArray x = input.detach();
  ZooTrail trail;
  NDArray loss;
  if (is_floating(x.dtype()))
    x.attach_grad();
  {
    const autograd::RecordScope record;
    const NDArray y = net(x);
    trail["y"] = values(y);
    loss = mean(square(y));
  }
  loss.backward();
  if (is_floating(x.dtype()))
    trail["x"] = values(x.grad());
  for (const auto& [name, parameter] : net.collect_params())
    trail[name] = values(parameter.grad_req() == GradReq::null ? parameter.data() : parameter.grad());
  return trail;
}

void check_hybrid(
    const std::string& name, const std::function<std::unique_ptr<gluon::Block>()>& make, const NDArray& x) {
  CAPTURE(name);
  std::vector<ZooTrail> trails;
  for (const bool hybrid : {false, true}) {
    random::seed(4);
    const std::unique_ptr<gluon::Block> net = make();
    net->initialize(gluon::init::Xavier());
    {
      const autograd::PredictScope predicting;
      (void)(*net)(x);  // completes shapes
    }
    if (hybrid)
      net->hybridize();
    for (int step = 0; step < 2; ++step)  // traced, and run again
      trails.push_back(step_of(*net, x));
    const autograd::PredictScope predicting;
    trails.push_back({{"predicted", values((*net)(x))}});
    CHECK(net->is_hybridized() == hybrid);
    CHECK((net->hybrid_traces() > 0) == hybrid);
  }
  REQUIRE(trails.size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(trails[i].size() == trails[i + 3].size());
    std::string differing;
    for (const auto& [what, numbers] : trails[i]) {
      CHECK_FALSE(numbers.empty());
      differing += trails[i + 3].at(what) == numbers ? "" : what + ' ';
    }
    CAPTURE(i);
    CHECK(differing == "");
  }
}

void check_model(const std::string& name, std::int64_t size) {
  const auto make = [&] {
    return std::make_unique<zoo::vision::Classifier>(zoo::vision::get_model(name, {.classes = 5}));
  };
  check_hybrid(name, make, random_array({2, 3, size, size}, 5));
}

}  // namespace

TEST_CASE(
    "Small models of the zoo give hybridized what they give by hand, gradients too", "[gluon][model_zoo][graph]") {
  const std::map<std::string, std::int64_t> sizes{
      {"squeezenet1.1", 224},
      {"mobilenet0.25", 32},
      {"mobilenetv2_0.25", 32},
      {"mobilenet_v3_small", 32},
      {"efficientnet_b0", 32},
      {"resnet18_v1", 32},
      {"resnet18_v2", 32}};
  for (const auto& [name, size] : sizes)
    check_model(name, size);
}

TEST_CASE("Large models of the zoo give hybridized what they give by hand", "[gluon][model_zoo][graph][.nightly]") {
  const std::map<std::string, std::int64_t> sizes{
      {"alexnet", 224},
      {"vgg11_bn", 32},
      {"densenet121", 224},
      {"inceptionv3", 299},
      {"resnext50_32x4d", 32},
      {"wide_resnet50_2", 32}};
  for (const auto& [name, size] : sizes)
    check_model(name, size);
}

TEST_CASE("A small GPT gives hybridized what it gives by hand, gradients too", "[gluon][model_zoo][graph]") {
  const auto make = [] {
    return std::make_unique<zoo::GPT>(
        zoo::GPTOptions{.vocabulary = 23, .length = 16, .units = 16, .layers = 2, .heads = 4, .dropout = 0.1});
  };
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 24; ++i)
    tokens.push_back(i * 7 % 23);
  check_hybrid("gpt", make, array(tokens, {2, 12}));
}

TEST_CASE("A small ViT gives hybridized what it gives by hand, gradients too", "[gluon][model_zoo][graph]") {
  const auto make = [] {
    return std::make_unique<zoo::ViT>(zoo::ViTOptions{
        .image = 16, .patch = 8, .units = 16, .hidden = 32, .layers = 2, .heads = 4, .classes = 5, .dropout = 0.1});
  };
  check_hybrid("vit", make, random_array({2, 3, 16, 16}, 3));
}
