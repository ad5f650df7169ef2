#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace samples {

/// Pixels of 8 bits a channel, rows one after the other, channels of a pixel together: 1 grey, 2 grey and alpha,
/// 3 RGB, 4 RGB and alpha.
struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::array<std::uint8_t, 3>> palette = {};  // of one channel: pixels are numbers of these colours
};

/// Reads a PNG; 16-bit channels become 8-bit, palettes RGB. Throws sluice::FileError naming the file: missing, not a
/// PNG, truncated, damaged, or of more than 2^28 pixels.
Image read_png(const std::filesystem::path& path);
/// The bytes of a PNG file. Throws sluice::Error where libpng refuses the image, and for a palette of an image of more
/// channels, of more than 256 colours, or with fewer than the pixels name.
std::vector<std::uint8_t> encode_png(const Image& image);
/// Throws sluice::FileError.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace samples
