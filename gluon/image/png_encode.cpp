#include <sluice/gluon/image/detail/decoder.h>

#ifdef SLUICE_PNG

#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/png_errors.h>

namespace sluice::image::detail {

namespace {

constexpr int k_types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};

class PngEncoder {
 public:
  PngEncoder() {
    png_ = png_create_write_struct_2(
        PNG_LIBPNG_VER_STRING, &errors_, png_failed, png_warned, &errors_, png_take, png_give);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
  }
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;
  ~PngEncoder() { png_destroy_write_struct(&png_, &info_); }

  std::vector<std::uint8_t> encode(const Pixels& image, const EncodeOptions& options) {
    if (info_ == nullptr)
      throw OutOfMemory("imencode: libpng finds no memory", 0);
    const bool done = guarded(errors_, [&] {
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_write_fn(png_, this, write_bytes, [](png_structp) {});
      png_set_compression_level(png_, options.compression);
      png_set_IHDR(
          png_,
          info_,
          static_cast<png_uint_32>(image.width),
          static_cast<png_uint_32>(image.height),
          8,
          k_types[image.channels - 1],
          PNG_INTERLACE_NONE,
          PNG_COMPRESSION_TYPE_DEFAULT,
          PNG_FILTER_TYPE_DEFAULT);
      png_write_info(png_, info_);
      for (std::int64_t i = 0; i < image.height; ++i)
        png_write_row(png_, image.data + i * image.width * image.channels);
      png_write_end(png_, nullptr);
    });
    if (errors_.out_of_memory)
      throw OutOfMemory("imencode: no memory for a PNG file", bytes_.size());
    require<Error>(done, [&] { return message("imencode: libpng: ", errors_.text); });
    return std::move(bytes_);
  }

 private:
  static void write_bytes(png_structp png, png_bytep bytes, png_size_t n) {
    auto& encoder = *static_cast<PngEncoder*>(png_get_io_ptr(png));
    if (append(encoder.bytes_, bytes, n))
      return;
    encoder.errors_.out_of_memory = true;
    png_error(png, "no memory");
  }

  PngErrors errors_ = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

std::vector<std::uint8_t> encode_png(const Pixels& image, const EncodeOptions& options) {
  return PngEncoder().encode(image, options);
}

}  // namespace sluice::image::detail

#endif
