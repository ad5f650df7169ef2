#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/sequential.h>

/// Networks that classify images (N, 3, H, W), layer by layer those of MXNet's gluon.model_zoo.vision, with parameters
/// in the same order, and those of torchvision that MXNet has not. They come without trained weights: initialize(),
/// load_parameters() or load_torchvision() (model_zoo/torchvision.h).
namespace sluice::gluon::model_zoo::vision {

/// Of all models.
struct ModelOptions {
  std::int64_t classes = 1000;
};

/// What all models are: children "features", whose results a network of one's own can take, and "output", which gives
/// (N, classes).
class SLUICE_API Classifier : public Block {
 public:
  Classifier(nn::Sequential features, std::shared_ptr<Block> output);

  Child<nn::Sequential> features() const { return features_; }
  Child<> output() const { return output_; }

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Child<nn::Sequential> features_;
  Child<> output_;
};

/// LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998) as it is taught since: tanh,
/// all maps of the second convolution see all of the first, a product at the end; images (N, 1, 28, 28), or others.
SLUICE_API Classifier lenet(const ModelOptions& options = {.classes = 10});
/// Krizhevsky, "One weird trick", 2014; images of 224.
SLUICE_API Classifier alexnet(const ModelOptions& options = {});
/// Simonyan and Zisserman, 2015: 11, 13, 16 or 19 layers, `batch_norm` behind each convolution or not; images of 224.
/// Throws ValueError for another number.
SLUICE_API Classifier vgg(int layers, bool batch_norm = false, const ModelOptions& options = {});
/// He et al., 2016: 18, 34, 50, 101 or 152 layers of version 1, "Deep residual learning", or 2, "Identity mappings".
/// The strides of version 1's bottlenecks stand in their first convolutions, as in the paper and in MXNet; resnet_v1b()
/// has them in the second ones, as torchvision. Throws ValueError for other numbers.
SLUICE_API Classifier resnet(int version, int layers, const ModelOptions& options = {});
SLUICE_API Classifier resnet_v1b(int layers, const ModelOptions& options = {});
/// Xie et al., "Aggregated residual transformations", 2017: 50, 101 or 152 layers whose middle convolutions are of
/// `cardinality` groups, of `width` channels in the first stage (torchvision's resnext50_32x4d is resnext(50, 32, 4),
/// resnext101_32x8d resnext(101, 32, 8)). Throws ValueError for other numbers.
SLUICE_API Classifier
resnext(int layers, std::int64_t cardinality = 32, std::int64_t width = 4, const ModelOptions& options = {});
/// Zagoruyko and Komodakis, "Wide residual networks", 2016: 50, 101 or 152 layers whose middle convolutions are
/// `factor` times as wide (torchvision's wide_resnet50_2). Throws ValueError for other numbers.
SLUICE_API Classifier wide_resnet(int layers, std::int64_t factor = 2, const ModelOptions& options = {});
/// Iandola et al., 2016: version "1.0" or "1.1"; images of 224. Throws ValueError for another.
SLUICE_API Classifier squeezenet(std::string_view version, const ModelOptions& options = {});
/// Huang et al., 2017: 121, 161, 169 or 201 layers; images of 224. Throws ValueError for another number.
SLUICE_API Classifier densenet(int layers, const ModelOptions& options = {});
/// Szegedy et al., 2016; images of 299.
SLUICE_API Classifier inception_v3(const ModelOptions& options = {});
/// Howard et al., 2017; `multiplier` of all channels (1, 0.75, 0.5, 0.25). Throws ValueError unless it is positive.
SLUICE_API Classifier mobilenet(double multiplier = 1, const ModelOptions& options = {});
/// Sandler et al., 2018; as MXNet has it, and mobilenet_v2b() as torchvision: without a convolution that makes nothing
/// wider, channels divided by eight, a Dense at the end. Throws ValueError unless the multiplier is positive.
SLUICE_API Classifier mobilenet_v2(double multiplier = 1, const ModelOptions& options = {});
SLUICE_API Classifier mobilenet_v2b(double multiplier = 1, const ModelOptions& options = {});
/// Howard et al., "Searching for MobileNetV3", 2019, as torchvision has them. Throws ValueError unless the multiplier
/// is positive.
SLUICE_API Classifier mobilenet_v3_large(double multiplier = 1, const ModelOptions& options = {});
SLUICE_API Classifier mobilenet_v3_small(double multiplier = 1, const ModelOptions& options = {});
/// Tan and Le, 2019: B0 to B7 as torchvision has them (efficientnet_b0, ..), for images of 224, 240, 288, 300, 380,
/// 456, 528 and 600. Throws ValueError for another number.
SLUICE_API Classifier efficientnet(int b = 0, const ModelOptions& options = {});

/// A model by its name in MXNet: "resnet50_v1", "vgg16_bn", "mobilenetv2_1.0", .. and "resnet50_v1b"; what MXNet has
/// not by torchvision's: "resnext50_32x4d", "efficientnet_b0", .. Throws ValueError that lists model_names() for
/// another.
SLUICE_API Classifier get_model(std::string_view name, const ModelOptions& options = {});
SLUICE_API std::vector<std::string> model_names();

}  // namespace sluice::gluon::model_zoo::vision
