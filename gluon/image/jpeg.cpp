#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/decoder.h>

#ifdef SLUICE_JPEG

#include <sluice/gluon/image/detail/jpeg_errors.h>

namespace sluice::image::detail {

namespace {

constexpr int k_most_scans = 128;  // each may cost a pass over the image, in some ten bytes
constexpr std::size_t k_coefficients = 64 * sizeof(JCOEF);
constexpr JDIMENSION k_denominators[] = {8, 4, 2};
// Where a row begins at a vector's place, libjpeg-turbo writes it past the caches; that of a small image takes a third
// longer so than by way of a row that is in them.
constexpr std::size_t k_off_vectors = 8;

// Warnings that say that pixels are not those which were encoded; others do no harm.
bool is_damage(int code) {
#ifdef D_ARITH_CODING_SUPPORTED
  if (code == JWRN_ARITH_BAD_CODE)
    return true;
#endif
  return code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC;
}

void note_warning(j_common_ptr codec, int level) {
  auto& errors = *reinterpret_cast<JpegErrors*>(codec->err);
  if (level < 0 && is_damage(errors.manager.msg_code) && errors.text[0] == '\0')
    errors.manager.format_message(codec, errors.text);
}

void limit_scans(j_common_ptr codec) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(codec);
  if (decoder->input_scan_number > k_most_scans) {
    auto& errors = *reinterpret_cast<JpegErrors*>(codec->err);
    std::snprintf(errors.text, sizeof errors.text, "it has more than %d scans", k_most_scans);
    std::longjmp(errors.back, 1);
  }
}

// Apart from the decoder, whose constructor throws.
struct JpegState : jpeg_decompress_struct {
  JpegState() : jpeg_decompress_struct{} {}
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;
  ~JpegState() { jpeg_destroy_decompress(this); }
};

class JpegDecoder final : public Decoder {
 public:
  explicit JpegDecoder(Encoded encoded) : encoded_(std::move(encoded)) {
    jpeg_.err = start_errors(errors_);
    errors_.manager.emit_message = note_warning;
    run([this] {
      jpeg_create_decompress(&jpeg_);
      // Older headers want bytes that could be written.
      jpeg_mem_src(&jpeg_, const_cast<unsigned char*>(encoded_.bytes.data()), encoded_.bytes.size());
      if (encoded_.options.orient)
        jpeg_save_markers(&jpeg_, JPEG_APP0 + 1, 0xffff);
      jpeg_read_header(&jpeg_, TRUE);
    });
    watch_.progress_monitor = limit_scans;
    jpeg_.progress = &watch_;
    find_orientation();
    choose_result();
    check_size();
  }

  int orientation() const override { return orientation_; }

  void read(std::uint8_t* to) override {
    const std::size_t row = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
    const bool converts = jpeg_.out_color_space == JCS_CMYK || channels == 4;
    std::vector<std::uint8_t> between(k_off_vectors + static_cast<std::size_t>(width) * 4);
    run([&] {
      jpeg_start_decompress(&jpeg_);
      for (; jpeg_.output_scanline < jpeg_.output_height; to += row) {
        JSAMPROW rows[] = {between.data() + k_off_vectors};
        jpeg_read_scanlines(&jpeg_, rows, 1);
        if (converts)
          convert(rows[0], to);
        else
          std::memcpy(to, rows[0], row);
      }
      jpeg_finish_decompress(&jpeg_);
    });
    if (errors_.text[0] != '\0')
      encoded_.fail(errors_.text);
  }

 private:
  template <class Call>
  void run(const Call& call) {
    if (!guarded(errors_, call))
      throw_failure();
  }
  [[noreturn]] void throw_failure() {
    if (errors_.manager.msg_code == JERR_OUT_OF_MEMORY)
      throw OutOfMemory(message(encoded_.name, ": libjpeg finds no memory to decode it"), 0);
    encoded_.fail(errors_.text);
  }

  void find_orientation() {
    constexpr std::size_t k_mark = 6;  // "Exif" and two zeros
    for (jpeg_saved_marker_ptr marker = jpeg_.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->data_length >= k_mark && std::memcmp(marker->data, "Exif\0", k_mark) == 0) {
        orientation_ = exif_orientation({marker->data + k_mark, marker->data_length - k_mark});
        return;
      }
    }
  }

  void choose_result() {
    const J_COLOR_SPACE stored = jpeg_.jpeg_color_space;
    channels = encoded_.options.channels != 0 ? encoded_.options.channels : stored == JCS_GRAYSCALE ? 1 : 3;
    if (stored == JCS_CMYK || stored == JCS_YCCK) {
      jpeg_.out_color_space = JCS_CMYK;
    } else if (stored == JCS_GRAYSCALE || stored == JCS_YCbCr || stored == JCS_RGB) {
      jpeg_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    } else {
      encoded_.fail(message("a JPEG of ", jpeg_.num_components, " components of unknown colours"));
    }
    const auto shorter = std::min(jpeg_.image_width, jpeg_.image_height);
    for (const JDIMENSION denominator : k_denominators) {
      if (encoded_.options.shorter_side > 0 &&
          (shorter + denominator - 1) / denominator >= encoded_.options.shorter_side) {
        jpeg_.scale_denom = denominator;
        break;
      }
    }
    run([this] { jpeg_calc_output_dimensions(&jpeg_); });
    height = jpeg_.output_height;
    width = jpeg_.output_width;
    suits_gpu = jpeg_.arith_code == 0 && jpeg_.scale_denom == 1 && (channels == 1 || channels == 3) &&
                (stored == JCS_GRAYSCALE || (stored == JCS_YCbCr && has_usual_sampling()));
  }

  // Colours at the resolution of the light or a half or a quarter of it.
  bool has_usual_sampling() const {
    const jpeg_component_info* const all = jpeg_.comp_info;
    const bool is_usual = (all[0].h_samp_factor == 1 || all[0].h_samp_factor == 2 || all[0].h_samp_factor == 4) &&
                          (all[0].v_samp_factor == 1 || all[0].v_samp_factor == 2);
    for (int i = 1; i < jpeg_.num_components; ++i) {
      if (!is_usual || all[i].h_samp_factor != 1 || all[i].v_samp_factor != 1)
        return false;
    }
    return is_usual;
  }

  // Before memory is taken for what the header claims.
  void check_size() {
    std::uint64_t blocks = 0;
    for (int i = 0; i < jpeg_.num_components; ++i)
      blocks += std::uint64_t{jpeg_.comp_info[i].width_in_blocks} * jpeg_.comp_info[i].height_in_blocks;
    // A block is a bit at least, but for arithmetic coding.
    if (!jpeg_.arith_code && blocks > std::uint64_t{encoded_.bytes.size()} * 8) {
      encoded_.fail(message(
          encoded_.bytes.size(),
          " bytes cannot hold the ",
          jpeg_.image_height,
          " x ",
          jpeg_.image_width,
          " pixels of its header: it is truncated or damaged"));
    }
    // Files of several scans are decoded from coefficients, which are kept meanwhile; blocks at the edges fill up.
    extra_bytes = static_cast<std::size_t>(width) * 4;
    if (jpeg_has_multiple_scans(&jpeg_) != 0)
      extra_bytes += (blocks + blocks / 2) * k_coefficients;
    encoded_.check_memory(*this);
  }

  void convert(const std::uint8_t* from, std::uint8_t* to) const {
    const bool cmyk = jpeg_.out_color_space == JCS_CMYK;
    const int flip = jpeg_.saw_Adobe_marker != 0 ? 0 : 255;  // Adobe's programs store the inks inverted
    for (std::int64_t i = 0; i < width; ++i, from += cmyk ? 4 : 3, to += channels) {
      int colour[] = {from[0], from[1], from[2]};
      for (int c = 0; cmyk && c < 3; ++c)
        colour[c] = ((from[c] ^ flip) * (from[3] ^ flip) + 127) / 255;
      if (channels == 1) {
        *to = grey_of(colour[0], colour[1], colour[2]);
        continue;
      }
      for (int c = 0; c < 3; ++c)
        to[c] = static_cast<std::uint8_t>(colour[c]);
      if (channels == 4)
        to[3] = 255;
    }
  }

  Encoded encoded_;
  JpegErrors errors_ = {};
  JpegState jpeg_;
  jpeg_progress_mgr watch_ = {};
  int orientation_ = 1;
};

}  // namespace

std::unique_ptr<Decoder> jpeg_decoder(Encoded encoded) {
  return std::make_unique<JpegDecoder>(std::move(encoded));
}

}  // namespace sluice::image::detail

#else

namespace sluice::image::detail {

std::unique_ptr<Decoder> jpeg_decoder(Encoded encoded) {
  throw UnsupportedError(message(encoded.name, ": this build of Sluice has no libjpeg, which decodes JPEG"));
}

std::vector<std::uint8_t> encode_jpeg(const Pixels&, const EncodeOptions&) {
  throw UnsupportedError("imencode: this build of Sluice has no libjpeg, which encodes JPEG");
}

}  // namespace sluice::image::detail

#endif
