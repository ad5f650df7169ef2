#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/nn/sequential.h>

/// Networks that say of each pixel of images (N, C, H, W) to which class it belongs: logits (N, classes, H, W). They
/// come without trained weights: initialize(), load_parameters() or load_torchvision() (model_zoo/torchvision.h).
namespace sluice::gluon::model_zoo::segmentation {

/// Of FCN and DeepLabV3.
struct SegmentationOptions {
  std::int64_t classes = 21;
  bool aux = false;  // a second result, of the same shape: what a layer in the middle says (GluonCV, torchvision)
};

/// What FCN and DeepLabV3 are: a backbone whose last stages have dilation in place of strides, a head, and what it says
/// enlarged to the image's size between the pixels' centres (ResizeMode::bilinear). Children: "backbone" up to where an
/// auxiliary head looks, "top", "head", and "aux" if there is one. With options.aux it gives two arrays.
class SLUICE_API SegmentationModel : public Block {
 public:
  /// Throws ValueError for a part that is null (`aux` may be).
  SegmentationModel(nn::Sequential backbone, nn::Sequential top, nn::Sequential head, std::shared_ptr<Block> aux);

 protected:
  /// Throws ShapeError for other than four axes.
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  Child<nn::Sequential> backbone_, top_, head_;
  Child<> aux_;
  bool has_aux_;
};

/// Long et al., "Fully convolutional networks", 2015, on a ResNet of 50, 101 or 152 layers (torchvision's fcn_resnet50,
/// fcn_resnet101). Throws ValueError for another number, and for fewer classes than one.
SLUICE_API SegmentationModel fcn_resnet(int layers = 50, const SegmentationOptions& options = {});
/// Chen et al., "Rethinking atrous convolution", 2017, on a ResNet of 50, 101 or 152 layers (torchvision's
/// deeplabv3_resnet50, deeplabv3_resnet101). Throws as fcn_resnet().
SLUICE_API SegmentationModel deeplabv3_resnet(int layers = 50, const SegmentationOptions& options = {});
/// The same on mobilenet_v3_large() (torchvision's deeplabv3_mobilenet_v3_large).
SLUICE_API SegmentationModel deeplabv3_mobilenet_v3_large(const SegmentationOptions& options = {});

/// Of UNet.
struct UNetOptions {
  std::int64_t classes = 2;
  std::int64_t channels = 64;  // of the first level; each one below has twice as many
  int levels = 4;              // how often images are halved
  bool batch_norm = true;      // behind convolutions, which then have no bias
};

/// Ronneberger et al., "U-Net", 2015: down by pools, up by transposed convolutions, and beside each level what was
/// there on the way down. Unlike the paper's, convolutions are padded: (N, C, H, W) gives (N, classes, H, W). Children:
/// "down0", "down1", .., "bottom", and from the lowest level on "up0", "level0", "up1", .., "output".
class SLUICE_API UNet : public Block {
 public:
  /// Throws ValueError for fewer classes or channels than one, or other than 1 to 8 levels.
  explicit UNet(const UNetOptions& options = {});

 protected:
  /// Throws ShapeError for other than four axes, and for images whose height and width 2^levels does not divide.
  NDArray forward(const NDArray& x) const override;

 private:
  std::vector<Child<>> down_, up_, level_;
  Child<> bottom_, output_;
};

}  // namespace sluice::gluon::model_zoo::segmentation
