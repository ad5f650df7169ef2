#pragma once

#include <cstdint>

#include <sluice/operator/resize/resize.h>

namespace sluice::gluon::data::vision {

/// Height and width of an image, in this order (Gluon has the width first). A number stands for a square.
struct ImageSize {
  ImageSize(std::int64_t side) : height(side), width(side) {}  // NOLINT: `Resize(224)`
  ImageSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  std::int64_t height, width;
};

/// How pixels between pixels are found. Places are as OpenCV and PyTorch count them: the middle of pixel i is at
/// i + 0.5, and `nearest` takes pixel floor(i H / OH).
struct InterpolationOptions {
  ResizeMode mode = ResizeMode::bilinear;
  /// Of all pixels below one of a smaller result, as Pillow; not of `nearest`.
  bool antialias = false;
};

/// How images are rotated. Both at once are refused.
struct RotateOptions {
  bool zoom_in = false;   // magnified until no corner is black
  bool zoom_out = false;  // reduced until all of the image shows
};

}  // namespace sluice::gluon::data::vision
