#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/shape.h>

/// Images as files and as arrays, under the names of MXNet's mx.image.
namespace sluice::image {

enum class ImageFormat : std::uint8_t { jpeg, png };

/// How an encoded image becomes pixels.
struct DecodeOptions {
  /// Of the result: 1 (grey), 3 (red, green, blue), 4 (alpha too, 255 where the file has none), or 0: 1 for a grey
  /// image, otherwise 3, with alpha 4.
  int channels = 3;
  /// Turned and mirrored as EXIF data in the file asks.
  bool orient = false;
  /// JPEG is decoded at an eighth, a quarter or half its size if its shorter side still has that many pixels, which
  /// takes less time; 0: in full. PNG has no such ways and comes in full.
  std::int64_t shorter_side = 0;
  /// Most memory that decoding may take, the result included. What would take more is a FileError.
  std::size_t most_bytes = std::size_t{1} << 29;
};

/// How pixels become an encoded image.
struct EncodeOptions {
  ImageFormat format = ImageFormat::jpeg;
  int quality = 95;          // of JPEG, 1 to 100
  bool subsampling = true;   // JPEG's colours at half the resolution
  bool progressive = false;  // JPEG in scans that get finer
  int compression = 3;       // of PNG, 0 (none) to 9
};

namespace detail {
class Decoder;
}

/// An encoded JPEG or PNG image whose header has been read. The bytes must stay where they are as long as it lives.
class SLUICE_API ImageDecoder {
 public:
  /// `name` is what errors call the image, its file for instance. Throws FileError for bytes that are neither JPEG nor
  /// PNG, a damaged header, more pixels than the bytes could hold and images that would take more than
  /// options.most_bytes; ValueError for options out of range; UnsupportedError in a build without the format's library.
  explicit ImageDecoder(
      std::span<const std::uint8_t> bytes, const DecodeOptions& options = {}, std::string name = "the image");
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;
  ~ImageDecoder();

  /// (height, width, channels) of what decode() writes.
  const Shape& shape() const noexcept { return shape_; }
  /// Writes the pixels, row by row, on the calling thread; once. Throws FileError for data that is truncated or
  /// damaged, where libjpeg and libpng can tell; `to` then holds anything.
  void decode(std::uint8_t* to);

 private:
  std::unique_ptr<detail::Decoder> decoder_;
  Shape shape_;
  int orientation_ = 1;
};

/// The pixels of an encoded JPEG or PNG image, of whose bytes it keeps a copy: uint8 (H, W, C) on the CPU, decoded by a
/// task (mx.image.imdecode). Throws as ImageDecoder; damage behind the header surfaces where the array is used.
SLUICE_API NDArray imdecode(
    std::span<const std::uint8_t> bytes,
    const DecodeOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// The same on any device. A GPU decodes JPEG itself where decodes_on_gpu(): of each image a task of the CPU reads the
/// Huffman codes, one of the GPU does the rest. Its pixels are libjpeg's but for rounding, by up to 4 of 255 in a
/// channel; at sharp edges of colours that are stored at half the resolution they may be further off. What nvJPEG does
/// not take (PNG, images at a fraction of their size or with an alpha channel, CMYK and other rare colours, arithmetic
/// codes, files that are cut off) the CPU decodes, and the pixels are copied. Throws DeviceError, too; damage within
/// the codes is a FileError where nvJPEG or libjpeg can tell.
SLUICE_API NDArray imdecode(
    std::span<const std::uint8_t> bytes,
    const DecodeOptions& options,
    Device device,
    SourceLocation site = SourceLocation::current());

/// Whether `device` is a GPU that decodes JPEG: its library, nvJPEG, is there. The first call for a GPU loads it.
SLUICE_API bool decodes_on_gpu(Device device);

/// The bytes of a file, not decoded. Throws FileError naming it: missing, no regular file, or more than `most` bytes.
SLUICE_API std::vector<std::uint8_t> read_encoded(const std::filesystem::path& path, std::size_t most);

/// imdecode() of a file. Throws FileError, naming the file, also where it is missing.
SLUICE_API NDArray imread(
    const std::filesystem::path& path,
    const DecodeOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// The same on any device.
SLUICE_API NDArray imread(
    const std::filesystem::path& path,
    const DecodeOptions& options,
    Device device,
    SourceLocation site = SourceLocation::current());

/// The bytes of a JPEG or PNG file of an image uint8 (H, W, C); JPEG takes 1 or 3 channels, PNG 1 to 4 (2: grey and
/// alpha). Waits for the image. Throws ShapeError, DTypeError, ValueError for options out of range and
/// UnsupportedError.
SLUICE_API std::vector<std::uint8_t> imencode(
    const NDArray& image, const EncodeOptions& options = {}, SourceLocation site = SourceLocation::current());

/// Writes an image into a file, whole or not at all; its name says the format (.jpg, .jpeg, .png) whatever
/// options.format is. Throws ValueError for other names, FileError, and as imencode().
SLUICE_API void imwrite(
    const std::filesystem::path& path,
    const NDArray& image,
    EncodeOptions options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::image
