#pragma once

#include <cstdint>
#include <vector>

#include <sluice/sluice.h>

namespace sluice::bench {

/// He et al., "Deep Residual Learning for Image Recognition", as torchvision builds it: the stride of a bottleneck is
/// in its 3x3.
struct ResNetOptions {
  std::vector<int> blocks{3, 4, 6, 3};  // of each stage; ResNet-50's
  bool dilated = false;                 // the last two stages keep the extents and dilate instead, as DeepLab has it
};

/// Up to the last stage: x (N, 3, H, W) gives (N, channels_of(options), H / 32, W / 32), or / 8 dilated.
gluon::nn::Sequential resnet_features(const ResNetOptions& options);
std::int64_t channels_of(const ResNetOptions& options);
/// With the mean over the image and the dense layer behind it: (N, 1000).
gluon::nn::Sequential resnet(const ResNetOptions& options);

}  // namespace sluice::bench
