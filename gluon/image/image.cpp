#include <algorithm>
#include <cctype>
#include <fstream>
#include <new>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/decoder.h>
#include <sluice/gluon/image/detail/gpu_decoding.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/file.h>
#include <sluice/operator/sink.h>

namespace sluice::image {

namespace detail {

void Encoded::fail(const std::string& what) const {
  throw FileError(message(name, ": ", what));
}

void Encoded::check_memory(const Decoder& decoder) const {
  // Sides have 31 bits, channels 3: the product fits.
  const std::uint64_t pixels = static_cast<std::uint64_t>(decoder.height) * static_cast<std::uint64_t>(decoder.width);
  const std::uint64_t image = pixels * static_cast<std::uint64_t>(decoder.channels);
  const bool turned = options.orient && decoder.orientation() != 1;
  const std::uint64_t all = image * (turned ? 2 : 1) + decoder.extra_bytes;
  if (all > options.most_bytes) {
    fail(message(
        decoder.height,
        " x ",
        decoder.width,
        " pixels take ",
        all,
        " bytes to decode, more than the limit of ",
        options.most_bytes));
  }
}

bool append(std::vector<std::uint8_t>& to, const std::uint8_t* bytes, std::size_t n) noexcept {
  try {
    to.insert(to.end(), bytes, bytes + n);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

namespace {

void check_options(const DecodeOptions& options) {
  const int channels = options.channels;
  require(channels == 0 || channels == 1 || channels == 3 || channels == 4, [&] {
    return message("imdecode: channels is ", channels, ", not 0, 1, 3 or 4");
  });
  require(options.shorter_side >= 0, [&] { return message("imdecode: shorter_side is ", options.shorter_side); });
}

}  // namespace

std::unique_ptr<Decoder> decoder_of(
    std::span<const std::uint8_t> bytes, const DecodeOptions& options, std::string name) {
  check_options(options);
  constexpr std::uint8_t k_jpeg[] = {0xff, 0xd8, 0xff}, k_png[] = {0x89, 'P', 'N', 'G'};
  const auto begins_with = [&](std::span<const std::uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  Encoded encoded{.bytes = bytes, .options = options, .name = std::move(name)};
  if (begins_with(k_jpeg))
    return jpeg_decoder(std::move(encoded));
  if (begins_with(k_png))
    return png_decoder(std::move(encoded));
  encoded.fail(bytes.empty() ? "it is empty" : "it is neither JPEG nor PNG");
}

}  // namespace detail

namespace {

// The header is read at once, the pixels by a task.
NDArray decoded(
    std::vector<std::uint8_t> encoded,
    const DecodeOptions& options,
    std::string name,
    bool pinned,
    SourceLocation site) {
  const auto bytes = std::make_shared<const std::vector<std::uint8_t>>(std::move(encoded));
  const auto decoder = std::make_shared<ImageDecoder>(*bytes, options, std::move(name));
  const NDArray image = empty(decoder->shape(), {.dtype = uint8, .pinned = pinned});
  sluice::detail::Buffer* buffer = image.object()->buffer;
  Task task{.name = "imdecode"};
  task.access.push_back(out(buffer->var()));
  buffer->raise_version();
  auto* to = reinterpret_cast<std::uint8_t*>(image.object()->data());
  Engine::current().push(
      task, [decoder, bytes, to] { decoder->decode(to); }, site);
  return image;
}

NDArray decoded_on(
    std::vector<std::uint8_t> encoded,
    const DecodeOptions& options,
    const std::string& name,
    Device device,
    SourceLocation site) {
  if (device.is_cpu())
    return decoded(std::move(encoded), options, name, false, site);
  const CallSinkScope at_once(nullptr);  // the pixels are the file's, whoever traces what is done with them
  if (NDArray image = detail::decoded_on_gpu(encoded, options, name, device, site); image.defined())
    return image;
  const NDArray host = decoded(std::move(encoded), options, name, true, site);
  NDArray image = empty(host.shape(), {.dtype = uint8, .device = device});
  copy_into(host, image, site);
  return image;
}

ImageFormat format_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  require(ending == ".jpg" || ending == ".jpeg" || ending == ".png", [&] {
    return message("imwrite: ", path.string(), " ends in none of .jpg, .jpeg and .png");
  });
  return ending == ".png" ? ImageFormat::png : ImageFormat::jpeg;
}

void check_encoded(const NDArray& image, const EncodeOptions& options) {
  require<DTypeError>(
      image.dtype() == uint8, [&] { return message("imencode: images are uint8, this is ", image.dtype()); });
  const Shape& shape = image.shape();
  const bool jpeg = options.format == ImageFormat::jpeg;
  require<ShapeError>(
      shape.ndim() == 3 && shape.size() > 0 && shape[2] <= 4 && (!jpeg || shape[2] == 1 || shape[2] == 3), [&] {
        return message("imencode: an image is (height, width, ", jpeg ? "1 or 3" : "1 to 4", "), this is ", shape);
      });
  const std::int64_t longest = jpeg ? 65500 : 1000000;
  require<ShapeError>(shape[0] <= longest && shape[1] <= longest, [&] {
    return message("imencode: a side of ", shape, " is longer than ", longest);
  });
  require(options.quality >= 1 && options.quality <= 100, [&] {
    return message("imencode: quality is ", options.quality, ", not 1 to 100");
  });
  require(options.compression >= 0 && options.compression <= 9, [&] {
    return message("imencode: compression is ", options.compression, ", not 0 to 9");
  });
}

}  // namespace

ImageDecoder::ImageDecoder(std::span<const std::uint8_t> bytes, const DecodeOptions& options, std::string name)
    : decoder_(detail::decoder_of(bytes, options, std::move(name))) {
  orientation_ = options.orient ? decoder_->orientation() : 1;
  const bool on_side = detail::lies_on_side(orientation_);
  shape_ = {
      on_side ? decoder_->width : decoder_->height,
      on_side ? decoder_->height : decoder_->width,
      std::int64_t{decoder_->channels}};
}
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

void ImageDecoder::decode(std::uint8_t* to) {
  require(decoder_ != nullptr, [] { return "ImageDecoder: the image was decoded already"; });
  const std::unique_ptr<detail::Decoder> decoder = std::move(decoder_);
  if (orientation_ == 1)
    return decoder->read(to);
  std::vector<std::uint8_t> upright(static_cast<std::size_t>(shape_.size()));
  decoder->read(upright.data());
  detail::turn({upright.data(), decoder->height, decoder->width, decoder->channels}, orientation_, to);
}

NDArray imdecode(std::span<const std::uint8_t> bytes, const DecodeOptions& options, SourceLocation site) {
  return sluice::detail::located(site, [&] {
    return decoded({bytes.begin(), bytes.end()}, options, "the image", false, site);
  });
}

NDArray imdecode(
    std::span<const std::uint8_t> bytes, const DecodeOptions& options, Device device, SourceLocation site) {
  return sluice::detail::located(site, [&] {
    return decoded_on({bytes.begin(), bytes.end()}, options, "the image", device, site);
  });
}

NDArray imread(const std::filesystem::path& path, const DecodeOptions& options, SourceLocation site) {
  return imread(path, options, cpu(), site);
}

NDArray imread(const std::filesystem::path& path, const DecodeOptions& options, Device device, SourceLocation site) {
  return sluice::detail::located(
      site, [&] { return decoded_on(read_encoded(path, options.most_bytes), options, path.string(), device, site); });
}

std::vector<std::uint8_t> imencode(const NDArray& image, const EncodeOptions& options, SourceLocation site) {
  return sluice::detail::located(site, [&] {
    check_encoded(image, options);
    const std::vector<std::uint8_t> values = image.to_vector<std::uint8_t>(site);
    const Shape& shape = image.shape();
    const detail::Pixels pixels{values.data(), shape[0], shape[1], static_cast<int>(shape[2])};
    return options.format == ImageFormat::jpeg ? detail::encode_jpeg(pixels, options)
                                               : detail::encode_png(pixels, options);
  });
}

void imwrite(const std::filesystem::path& path, const NDArray& image, EncodeOptions options, SourceLocation site) {
  sluice::detail::located(site, [&] {
    options.format = format_of(path);
    const std::vector<std::uint8_t> bytes = imencode(image, options, site);
    write_whole(path, [&](const std::filesystem::path& draft) {
      std::ofstream file(draft, std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      file.close();
      require<FileError>(file.good(), [&] { return message(path.string(), ": writing it failed"); });
    });
  });
}

}  // namespace sluice::image
