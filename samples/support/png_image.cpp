#include "samples/support/png_image.h"

#include <algorithm>
#include <memory>

#include <png.h>

#include <sluice/engine/error.h>

#include "samples/support/safe_file.h"

namespace samples {

using sluice::FileError;
using sluice::message;

namespace {

constexpr std::uint64_t k_most_pixels = std::uint64_t{1} << 28;

struct Freed {
  void operator()(png_image* image) const { png_image_free(image); }
};

png_image header_of(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format =
      (image.channels >= 3 ? PNG_FORMAT_FLAG_COLOR : 0) | (image.channels % 2 == 0 ? PNG_FORMAT_FLAG_ALPHA : 0);
  if (image.palette.empty())
    return png;
  // libpng itself reads what is not there.
  const auto most = std::max_element(image.pixels.begin(), image.pixels.end());
  sluice::require<sluice::Error>(
      image.channels == 1 && image.palette.size() <= 256 &&
          (most == image.pixels.end() || *most < image.palette.size()),
      [&] { return message(image.palette.size(), " colours of an image of ", image.channels, " channels"); });
  png.format = PNG_FORMAT_RGB_COLORMAP;
  png.colormap_entries = static_cast<png_uint_32>(image.palette.size());
  return png;
}

}  // namespace

Image read_png(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw FileError(message(path.string(), ": there is no such file"));
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, Freed> guard(&png);
  if (png_image_begin_read_from_file(&png, path.c_str()) == 0)
    throw FileError(message(path.string(), ": cannot be read as PNG: ", png.message));
  if (std::uint64_t{png.width} * png.height > k_most_pixels)
    throw FileError(message(path.string(), ": ", png.width, " x ", png.height, " pixels are more than 2^28"));
  png.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;
  Image image{
      .height = png.height,
      .width = png.width,
      .channels = PNG_IMAGE_SAMPLE_CHANNELS(png.format),
      .pixels = std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  if (png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr) == 0 || PNG_IMAGE_FAILED(png))
    throw FileError(message(path.string(), ": truncated or damaged: ", png.message));
  if (png.warning_or_error != 0)
    throw FileError(message(path.string(), ": damaged: ", png.message));
  return image;
}

void write_png(const std::filesystem::path& path, const Image& image) {
  // Not by libpng, which removes what stands there where it fails, a device too.
  const std::vector<std::uint8_t> bytes = encode_png(image);
  write_text(path, {bytes.begin(), bytes.end()});
}

std::vector<std::uint8_t> encode_png(const Image& image) {
  png_image png = header_of(image);
  const std::unique_ptr<png_image, Freed> guard(&png);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<std::uint8_t> bytes(size);
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, image.palette.data()) == 0)
    throw sluice::Error(message("an image of ", image.width, " x ", image.height, " pixels: ", png.message));
  bytes.resize(size);
  return bytes;
}

}  // namespace samples
