#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/decoder.h>

#ifdef SLUICE_PNG

#include <cstring>
#include <iterator>

#include <sluice/gluon/image/detail/png_errors.h>

namespace sluice::image::detail {

namespace {

constexpr std::uint64_t k_most_packed = 1032;    // deflate packs no more into one byte
constexpr png_uint_32 k_longest_side = 1 << 24;  // two of them and four channels fit 64 bits
constexpr png_alloc_size_t k_most_chunk = 1 << 23;
constexpr png_uint_32 k_most_chunks = 1000;
// Chunks that say nothing about pixels as they are given here: names of four letters, each ended by a zero.
constexpr png_byte k_unused[] =
    "bKGD\0cHRM\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";

// Apart from the decoder, whose constructor throws.
struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  PngState() = default;
  PngState(const PngState&) = delete;
  PngState& operator=(const PngState&) = delete;
  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
};

class PngDecoder final : public Decoder {
 public:
  explicit PngDecoder(Encoded encoded) : encoded_(std::move(encoded)) {
    state_.png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &errors_, png_failed, png_warned, &errors_, png_take, png_give);
    state_.info = state_.png != nullptr ? png_create_info_struct(state_.png) : nullptr;
    if (state_.info == nullptr)
      throw OutOfMemory(message(encoded_.name, ": libpng finds no memory to decode it"), 0);
    run([this] {
      png_set_user_limits(state_.png, k_longest_side, k_longest_side);
      png_set_chunk_malloc_max(state_.png, k_most_chunk);
      png_set_chunk_cache_max(state_.png, k_most_chunks);
      // Texts and profiles may unpack to a thousand times their size while the header is read.
      png_set_keep_unknown_chunks(state_.png, PNG_HANDLE_CHUNK_NEVER, k_unused, std::size(k_unused) / 5);
      png_set_read_fn(state_.png, this, read_bytes);
      png_read_info(state_.png, state_.info);
    });
    height = png_get_image_height(state_.png, state_.info);
    width = png_get_image_width(state_.png, state_.info);
    find_orientation();
    choose_result();
    check_size();
    run([this] { png_read_update_info(state_.png, state_.info); });  // takes memory for rows
  }

  int orientation() const override { return orientation_; }

  void read(std::uint8_t* to) override {
    const std::size_t row = row_bytes(), result_row = static_cast<std::size_t>(width) * result_channels();
    std::vector<std::uint8_t> between(greys_ ? row * (passes_ > 1 ? static_cast<std::size_t>(height) : 1) : 0);
    run([&] {
      for (int pass = 0; pass < passes_; ++pass) {
        for (std::int64_t i = 0; i < height; ++i) {
          const auto at = static_cast<std::size_t>(i);
          std::uint8_t* destination = !greys_ ? to + at * row : between.data() + (passes_ > 1 ? at * row : 0);
          png_read_row(state_.png, destination, nullptr);
          if (greys_ && pass + 1 == passes_)
            to_grey(destination, to + at * result_row);
        }
      }
      png_read_end(state_.png, nullptr);
    });
  }

 private:
  static void read_bytes(png_structp png, png_bytep to, png_size_t n) {
    auto& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (n > decoder.encoded_.bytes.size() - decoder.read_)
      png_error(png, "the file ends early: it is truncated");
    std::memcpy(to, decoder.encoded_.bytes.data() + decoder.read_, n);
    decoder.read_ += n;
  }

  template <class Call>
  void run(const Call& call) {
    if (guarded(errors_, call))
      return;
    if (errors_.out_of_memory)
      throw OutOfMemory(message(encoded_.name, ": libpng finds no memory to decode it: ", errors_.text), 0);
    encoded_.fail(errors_.text);
  }

  std::size_t result_channels() const { return static_cast<std::size_t>(channels); }
  std::size_t row_bytes() const { return png_get_rowbytes(state_.png, state_.info); }

  void find_orientation() {
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif = nullptr;
    png_uint_32 bytes = 0;
    if (png_get_eXIf_1(state_.png, state_.info, &bytes, &exif) != 0 && exif != nullptr)
      orientation_ = exif_orientation({exif, bytes});
#endif
  }

  void choose_result() {
    const png_byte type = png_get_color_type(state_.png, state_.info);
    const bool colour = (type & PNG_COLOR_MASK_COLOR) != 0;
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(state_.png, state_.info, PNG_INFO_tRNS) != 0;
    stored_bits_ =
        std::uint64_t{png_get_channels(state_.png, state_.info)} * png_get_bit_depth(state_.png, state_.info);
    channels = encoded_.options.channels != 0 ? encoded_.options.channels : alpha ? 4 : colour ? 3 : 1;
    greys_ = colour && channels == 1;
    run([&] {
      png_set_expand(state_.png);
      png_set_strip_16(state_.png);
      if (channels >= 3)
        png_set_gray_to_rgb(state_.png);
      if (channels == 4 && !alpha)
        png_set_add_alpha(state_.png, 255, PNG_FILLER_AFTER);
      if (channels != 4 && alpha)
        png_set_strip_alpha(state_.png);
      passes_ = png_set_interlace_handling(state_.png);
    });
  }

  // Before memory is taken for what the header claims.
  void check_size() {
    const auto rows = static_cast<std::uint64_t>(height), columns = static_cast<std::uint64_t>(width);
    const std::uint64_t stored = rows * ((columns * stored_bits_ + 7) / 8);
    if (stored > encoded_.bytes.size() * k_most_packed) {
      encoded_.fail(message(
          encoded_.bytes.size(),
          " bytes cannot hold the ",
          height,
          " x ",
          width,
          " pixels of its header: it is truncated or damaged"));
    }
    // libpng's own rows, before and after each of its steps.
    extra_bytes = 8 * static_cast<std::size_t>(width) * 4 + (1 << 16);
    if (greys_)
      extra_bytes += 3 * static_cast<std::size_t>(width) * (passes_ > 1 ? static_cast<std::size_t>(height) : 1);
    encoded_.check_memory(*this);
  }

  void to_grey(const std::uint8_t* from, std::uint8_t* to) const {
    for (std::int64_t i = 0; i < width; ++i, from += 3)
      to[i] = grey_of(from[0], from[1], from[2]);
  }

  Encoded encoded_;
  PngErrors errors_ = {};
  PngState state_;
  std::size_t read_ = 0;
  std::uint64_t stored_bits_ = 0;  // of a pixel
  int passes_ = 1, orientation_ = 1;
  bool greys_ = false;  // colours of the file become grey here
};

}  // namespace

std::unique_ptr<Decoder> png_decoder(Encoded encoded) {
  return std::make_unique<PngDecoder>(std::move(encoded));
}

}  // namespace sluice::image::detail

#else

namespace sluice::image::detail {

std::unique_ptr<Decoder> png_decoder(Encoded encoded) {
  throw UnsupportedError(message(encoded.name, ": this build of Sluice has no libpng, which decodes PNG"));
}

std::vector<std::uint8_t> encode_png(const Pixels&, const EncodeOptions&) {
  throw UnsupportedError("imencode: this build of Sluice has no libpng, which encodes PNG");
}

}  // namespace sluice::image::detail

#endif
