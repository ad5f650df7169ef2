#include <sluice/gluon/image/detail/decoder.h>

#ifdef SLUICE_JPEG

#include <array>

#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/jpeg_errors.h>

namespace sluice::image::detail {

namespace {

// Collects what libjpeg writes.
struct Destination {
  jpeg_destination_mgr manager = {};  // first, as in JpegErrors
  std::array<std::uint8_t, 1 << 14> buffer = {};
  std::vector<std::uint8_t> bytes = {};

  void flush(j_compress_ptr codec, std::size_t n) {
    if (!append(bytes, buffer.data(), n))
      ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
    manager.next_output_byte = buffer.data();
    manager.free_in_buffer = buffer.size();
  }
};

Destination& destination_of(j_compress_ptr codec) {
  return *reinterpret_cast<Destination*>(codec->dest);
}

class JpegEncoder {
 public:
  JpegEncoder() {
    jpeg_.err = start_errors(errors_);
    to_.manager.init_destination = [](j_compress_ptr codec) { destination_of(codec).flush(codec, 0); };
    to_.manager.empty_output_buffer = [](j_compress_ptr codec) -> boolean {
      destination_of(codec).flush(codec, destination_of(codec).buffer.size());
      return TRUE;
    };
    to_.manager.term_destination = [](j_compress_ptr codec) {
      Destination& to = destination_of(codec);
      to.flush(codec, to.buffer.size() - to.manager.free_in_buffer);
    };
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;
  ~JpegEncoder() { jpeg_destroy_compress(&jpeg_); }

  std::vector<std::uint8_t> encode(const Pixels& image, const EncodeOptions& options) {
    const bool done = guarded(errors_, [&] {
      jpeg_create_compress(&jpeg_);
      jpeg_.dest = &to_.manager;
      describe(image, options);
      jpeg_start_compress(&jpeg_, TRUE);
      const std::int64_t row = image.width * image.channels;
      while (jpeg_.next_scanline < jpeg_.image_height) {
        JSAMPROW rows[] = {const_cast<JSAMPROW>(image.data + jpeg_.next_scanline * row)};
        jpeg_write_scanlines(&jpeg_, rows, 1);
      }
      jpeg_finish_compress(&jpeg_);
    });
    if (!done && errors_.manager.msg_code == JERR_OUT_OF_MEMORY)
      throw OutOfMemory("imencode: libjpeg finds no memory", 0);
    require<Error>(done, [&] { return message("imencode: libjpeg: ", errors_.text); });
    return std::move(to_.bytes);
  }

 private:
  void describe(const Pixels& image, const EncodeOptions& options) {
    jpeg_.image_width = static_cast<JDIMENSION>(image.width);
    jpeg_.image_height = static_cast<JDIMENSION>(image.height);
    jpeg_.input_components = image.channels;
    jpeg_.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg_);
    jpeg_set_quality(&jpeg_, options.quality, TRUE);
    if (image.channels == 3 && !options.subsampling)
      jpeg_.comp_info[0].h_samp_factor = jpeg_.comp_info[0].v_samp_factor = 1;
    if (options.progressive)
      jpeg_simple_progression(&jpeg_);
  }

  JpegErrors errors_ = {};
  jpeg_compress_struct jpeg_ = {};
  Destination to_ = {};
};

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const Pixels& image, const EncodeOptions& options) {
  return JpegEncoder().encode(image, options);
}

}  // namespace sluice::image::detail

#endif
