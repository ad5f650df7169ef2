#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/image/image.h>

namespace sluice::image::detail {

/// One encoded image, its header read.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Writes all rows, without the turns that orientation() asks for.
  virtual void read(std::uint8_t* to) = 0;
  /// As EXIF counts, 1 to 8; of PNG known after read() in rare files, which count as 1.
  virtual int orientation() const = 0;

  std::int64_t height = 0, width = 0;
  int channels = 0;
  /// What reading takes beside the result.
  std::size_t extra_bytes = 0;
  /// Of a kind that nvJPEG decodes to the same but for rounding.
  bool suits_gpu = false;
};

/// What decoders are made of.
struct Encoded {
  std::span<const std::uint8_t> bytes = {};
  DecodeOptions options = {};
  std::string name = {};

  [[noreturn]] void fail(const std::string& what) const;
  /// Throws FileError if an image of that size and `extra` bytes beside it are more than options.most_bytes.
  void check_memory(const Decoder& decoder) const;
};

/// By the format of the bytes. Throws as ImageDecoder.
std::unique_ptr<Decoder> decoder_of(
    std::span<const std::uint8_t> bytes, const DecodeOptions& options, std::string name);
std::unique_ptr<Decoder> jpeg_decoder(Encoded encoded);
std::unique_ptr<Decoder> png_decoder(Encoded encoded);

/// Pixels in host memory.
struct Pixels {
  const std::uint8_t* data = nullptr;
  std::int64_t height = 0, width = 0;
  int channels = 0;
};
std::vector<std::uint8_t> encode_jpeg(const Pixels& image, const EncodeOptions& options);
std::vector<std::uint8_t> encode_png(const Pixels& image, const EncodeOptions& options);

/// Adds bytes; false, and nothing thrown, where memory is short: for callbacks of C libraries.
bool append(std::vector<std::uint8_t>& to, const std::uint8_t* bytes, std::size_t n) noexcept;

/// The orientation that a TIFF header with directory (EXIF data) names: 1 to 8, 1 where it names none or is damaged.
int exif_orientation(std::span<const std::uint8_t> tiff) noexcept;
/// Whether an image so oriented lies on its side: height and width change places.
inline bool lies_on_side(int orientation) {
  return orientation >= 5;
}
/// Turns an image of the size before into `to`.
void turn(const Pixels& from, int orientation, std::uint8_t* to);

/// How much of green, red and blue is grey (ITU-R 601), of 65536.
inline std::uint8_t grey_of(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16);
}

}  // namespace sluice::image::detail
