// Runs a model of the zoo on weights that torchvision made, for zoo.py: zoo_forward MODEL WEIGHTS INPUT RESULT, all
// files .safetensors. Takes the array "x", writes "y0" and, of an auxiliary head, "y1".
#include <array>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <sluice/sluice.h>

namespace {

using namespace sluice;
namespace zoo = gluon::model_zoo;

using Maker = std::function<std::shared_ptr<gluon::Block>()>;

template <class B>
std::shared_ptr<gluon::Block> kept(B&& block) {
  return std::make_shared<B>(std::move(block));
}

std::shared_ptr<gluon::Block> make(const std::string& name) {
  constexpr zoo::segmentation::SegmentationOptions two{.aux = true};
  const std::map<std::string, Maker> others = {
      {"vit_b_16", [] { return kept(zoo::vit_b_16()); }},
      {"fcn_resnet50", [=] { return kept(zoo::segmentation::fcn_resnet(50, two)); }},
      {"fcn_resnet101", [] { return kept(zoo::segmentation::fcn_resnet(101)); }},
      {"deeplabv3_resnet50", [=] { return kept(zoo::segmentation::deeplabv3_resnet(50, two)); }},
      {"deeplabv3_resnet101", [] { return kept(zoo::segmentation::deeplabv3_resnet(101)); }},
      {"deeplabv3_mobilenet_v3_large", [=] { return kept(zoo::segmentation::deeplabv3_mobilenet_v3_large(two)); }},
  };
  const auto found = others.find(name);
  return found != others.end() ? found->second() : kept(zoo::vision::get_model(name));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "zoo_forward MODEL WEIGHTS INPUT RESULT\n";
    return 2;
  }
  try {
    const std::shared_ptr<gluon::Block> net = make(argv[1]);
    const NDArray x = gluon::formats::load_any(argv[3]).at(0).second;
    net->initialize(gluon::init::Zero());
    zoo::load_torchvision(*net, argv[2]);
    gluon::formats::NamedArrays results;
    const Arrays given = net->call(std::array{x});
    for (std::size_t i = 0; i < given.size(); ++i)
      results.emplace_back("y" + std::to_string(i), given[i]);
    gluon::formats::save_any(argv[4], results);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
