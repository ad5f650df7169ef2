#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sluice/engine/device.h>

namespace samples {

/// The networks that paint_mask() knows: "deeplabv3" (on ResNet-50), ..
std::vector<std::string> mask_models();

struct MaskOptions {
  sluice::Device device;
  std::string model;
  std::filesystem::path image;    // JPEG or PNG
  std::filesystem::path weights;  // torchvision's names (gluon/model_zoo/torchvision.h); "": random ones
  std::int64_t classes = 21;
  std::int64_t side = 520;  // the shorter one of the image as the network sees it
};

/// A PNG of the image's size whose numbers are the classes of its pixels, with a palette (Pascal VOC's), and a printed
/// line for each class that is found. Throws FileError, and as load_torchvision().
void paint_mask(const MaskOptions& options, const std::filesystem::path& output);

}  // namespace samples
