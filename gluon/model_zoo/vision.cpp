#include <functional>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/model_zoo/vision.h>

namespace sluice::gluon::model_zoo::vision {

namespace {

struct Named {
  std::string name;
  std::function<Classifier(const ModelOptions&)> make;
};

/// What MXNet has not, under torchvision's names.
void add_torchvision(std::vector<Named>& all) {
  const auto add = [&](const char* name, auto make) { all.push_back({name, make}); };
  add("mobilenetv2b_1.0", [](const ModelOptions& options) { return mobilenet_v2b(1, options); });
  add("mobilenet_v3_large", [](const ModelOptions& options) { return mobilenet_v3_large(1, options); });
  add("mobilenet_v3_small", [](const ModelOptions& options) { return mobilenet_v3_small(1, options); });
  add("resnext50_32x4d", [](const ModelOptions& options) { return resnext(50, 32, 4, options); });
  add("resnext101_32x8d", [](const ModelOptions& options) { return resnext(101, 32, 8, options); });
  add("resnext101_64x4d", [](const ModelOptions& options) { return resnext(101, 64, 4, options); });
  add("wide_resnet50_2", [](const ModelOptions& options) { return wide_resnet(50, 2, options); });
  add("wide_resnet101_2", [](const ModelOptions& options) { return wide_resnet(101, 2, options); });
  for (int b = 0; b <= 7; ++b)
    all.push_back(
        {message("efficientnet_b", b), [=](const ModelOptions& options) { return efficientnet(b, options); }});
}

std::vector<Named> all_models() {
  std::vector<Named> all{{"lenet", lenet}, {"alexnet", alexnet}, {"inceptionv3", inception_v3}};
  for (const int layers : {11, 13, 16, 19}) {
    for (const bool norm : {false, true})
      all.push_back({message("vgg", layers, norm ? "_bn" : ""), [=](const ModelOptions& options) {
                       return vgg(layers, norm, options);
                     }});
  }
  for (const int layers : {18, 34, 50, 101, 152}) {
    for (const int version : {1, 2})
      all.push_back({message("resnet", layers, "_v", version), [=](const ModelOptions& options) {
                       return resnet(version, layers, options);
                     }});
    all.push_back(
        {message("resnet", layers, "_v1b"), [=](const ModelOptions& options) { return resnet_v1b(layers, options); }});
  }
  for (const int layers : {121, 161, 169, 201})
    all.push_back(
        {message("densenet", layers), [=](const ModelOptions& options) { return densenet(layers, options); }});
  for (const char* const version : {"1.0", "1.1"})
    all.push_back(
        {message("squeezenet", version), [=](const ModelOptions& options) { return squeezenet(version, options); }});
  for (const auto& [text, factor] : {std::pair("1.0", 1.), {"0.75", 0.75}, {"0.5", 0.5}, {"0.25", 0.25}}) {
    const double multiplier = factor;
    all.push_back(
        {message("mobilenet", text), [=](const ModelOptions& options) { return mobilenet(multiplier, options); }});
    all.push_back({message("mobilenetv2_", text), [=](const ModelOptions& options) {
                     return mobilenet_v2(multiplier, options);
                   }});
  }
  add_torchvision(all);
  return all;
}

}  // namespace

Classifier::Classifier(nn::Sequential features, std::shared_ptr<Block> output)
    : features_(child("features", std::move(features))), output_(child("output", std::move(output))) {}

NDArray Classifier::forward(const NDArray& x) const {
  return output_(features_(x));
}

Classifier get_model(std::string_view name, const ModelOptions& options) {
  std::string known;
  for (const auto& [each, make] : all_models()) {
    if (each == name)
      return make(options);
    known += (known.empty() ? "" : ", ") + each;
  }
  throw ValueError(message("get_model: \"", name, "\" is none of ", known));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : all_models())
    names.push_back(name);
  return names;
}

}  // namespace sluice::gluon::model_zoo::vision
