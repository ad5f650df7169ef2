#pragma once

#include <cstdint>
#include <vector>

#include <sluice/gluon/image/image.h>
#include <sluice/ndarray/create.h>

#include "tests/gluon/encoded_images.h"
#include "tests/support/catch.h"

namespace sluice::test {

/// Whether this build decodes JPEG and PNG.
inline bool has_images() {
  try {
    image::imdecode(encoded_image("jpeg_grey"));
    image::imdecode(encoded_image("png_16"));
    return true;
  } catch (const UnsupportedError&) {
    return false;
  }
}

/// Waves of bytes, (height, width, channels).
inline std::vector<std::uint8_t> smooth_pixels(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<std::uint8_t> values;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c)
        values.push_back(static_cast<std::uint8_t>(40 + (x * 5 + y * 3 + c * 60) % 150));
    }
  }
  return values;
}
inline NDArray smooth_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  return array(smooth_pixels(height, width, channels), {height, width, channels});
}

}  // namespace sluice::test

/// Skips the rest of a case, visibly, in a build without libjpeg or libpng.
#define SLUICE_NEEDS_IMAGES()        \
  if (!::sluice::test::has_images()) \
  SLUICE_SKIP("needs libjpeg and libpng")
