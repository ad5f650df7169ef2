#pragma once

#include <cstdint>
#include <memory>

#include <sluice/sluice.h>

#include "tests/bench/networks/resnet.h"

namespace sluice::bench {

/// Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation" (DeepLabV3), as torchvision builds it
/// without its second head: x (N, 3, S, S) gives (N, 21, S, S). `side` is S, a multiple of 8.
std::shared_ptr<gluon::Block> deeplab(ResNetOptions backbone, std::int64_t side, Device device);

}  // namespace sluice::bench
