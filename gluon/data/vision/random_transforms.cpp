#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/detail/scratch.h>
#include <sluice/gluon/data/vision/detail/pixels.h>
#include <sluice/gluon/data/vision/random_transforms.h>

namespace sluice::gluon::data::vision::transforms {

namespace {

using detail::CropBox;

void check_chance(const char* transform, double p) {
  require(p >= 0 && p <= 1, [&] { return message(transform, ": a probability of ", p); });
}

void check_positive(const char* transform, const char* what, const NumberRange& range) {
  require(range.low > 0 && range.low <= range.high && std::isfinite(range.high), [&] {
    return message(transform, ": ", what, " from ", range.low, " to ", range.high);
  });
}

void copy(const TensorView& in, const TensorView& out) {
  std::memcpy(out.data, in.data, static_cast<std::size_t>(in.size) * size_of(in.dtype));
}

CropBox somewhere(const Shape& image, std::int64_t height, std::int64_t width, std::int64_t pad, SampleRandom& random) {
  const std::int64_t top = random.integer(0, image[0] + 2 * pad - height + 1);
  return {top - pad, random.integer(0, image[1] + 2 * pad - width + 1) - pad, height, width};
}

// torchvision's choice when no draw fitted: as much as has an allowed ratio.
CropBox middle(const Shape& image, const NumberRange& ratio) {
  const auto height = static_cast<double>(image[0]), width = static_cast<double>(image[1]);
  const double is = width / height;
  std::int64_t rows = image[0], columns = image[1];
  if (is < ratio.low)
    rows = std::clamp<std::int64_t>(std::llround(width / ratio.low), 1, rows);
  else if (is > ratio.high)
    columns = std::clamp<std::int64_t>(std::llround(height * ratio.high), 1, columns);
  return {(image[0] - rows) / 2, (image[1] - columns) / 2, rows, columns};
}

CropBox random_part(const Shape& image, const RandomResizedCropOptions& options, SampleRandom& random) {
  const double area = static_cast<double>(image[0]) * static_cast<double>(image[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * random.uniform(options.scale.low, options.scale.high);
    const double ratio = std::exp(random.uniform(std::log(options.ratio.low), std::log(options.ratio.high)));
    const double width = std::round(std::sqrt(part * ratio)), height = std::round(std::sqrt(part / ratio));
    if (width >= 1 && height >= 1 && width <= static_cast<double>(image[1]) && height <= static_cast<double>(image[0]))
      return somewhere(image, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), 0, random);
  }
  return middle(image, options.ratio);
}

}  // namespace

RandomFlipLeftRight::RandomFlipLeftRight(double p) : p_(p) {
  check_chance("RandomFlipLeftRight", p);
}
ArraySpec RandomFlipLeftRight::output_spec(const ArraySpec& in) const {
  detail::check_image("RandomFlipLeftRight", in);
  return in;
}
void RandomFlipLeftRight::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  random.chance(p_) ? detail::flip(in, 1, out) : copy(in, out);
}

RandomFlipTopBottom::RandomFlipTopBottom(double p) : p_(p) {
  check_chance("RandomFlipTopBottom", p);
}
ArraySpec RandomFlipTopBottom::output_spec(const ArraySpec& in) const {
  detail::check_image("RandomFlipTopBottom", in);
  return in;
}
void RandomFlipTopBottom::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  random.chance(p_) ? detail::flip(in, 0, out) : copy(in, out);
}

RandomCrop::RandomCrop(ImageSize size, const RandomCropOptions& options) : size_(size), options_(options) {
  detail::check_size("RandomCrop", size);
  require(
      options.pad >= 0 && options.pad <= 1 << 20, [&] { return message("RandomCrop: a padding of ", options.pad); });
}

ArraySpec RandomCrop::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("RandomCrop", in);
  return detail::with_size(in, size_);
}

void RandomCrop::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  const std::int64_t pad = options_.pad;
  const CropBox box = somewhere(
      in.shape,
      std::min(size_.height, in.shape[0] + 2 * pad),
      std::min(size_.width, in.shape[1] + 2 * pad),
      pad,
      random);
  const auto value = static_cast<float>(options_.pad_value);
  const auto byte = detail::to_element<std::uint8_t>(value);
  const void* beyond = in.dtype == uint8 ? static_cast<const void*>(&byte) : &value;
  if (box.height == size_.height && box.width == size_.width)
    return detail::crop(in, box, out, beyond);
  const ArraySpec spec = detail::with_size({.shape = in.shape, .dtype = in.dtype}, {box.height, box.width});
  data::detail::Scratch scratch(data::detail::bytes_of(spec));
  const TensorView part = data::detail::sample_view(scratch.as<std::byte>(), spec);
  detail::crop(in, box, part, beyond);
  detail::resample(part, {0, 0, box.height, box.width}, out, options_.interpolation);
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options)
    : size_(size), options_(options) {
  detail::check_size("RandomResizedCrop", size);
  check_positive("RandomResizedCrop", "scale", options.scale);
  check_positive("RandomResizedCrop", "ratio", options.ratio);
  require(options.scale.high <= 1, [&] { return message("RandomResizedCrop: scale up to ", options.scale.high); });
}

ArraySpec RandomResizedCrop::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("RandomResizedCrop", in);
  return detail::with_size(in, size_);
}

void RandomResizedCrop::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  detail::resample(in, random_part(in.shape, options_, random), out, options_.interpolation);
}

RandomRotation::RandomRotation(NumberRange degrees, const RotateOptions& options, double p)
    : degrees_(degrees), options_(options), p_(p) {
  require(std::isfinite(degrees.low) && std::isfinite(degrees.high) && degrees.low <= degrees.high, [&] {
    return message("RandomRotation: from ", degrees.low, " to ", degrees.high, " degrees");
  });
  check_chance("RandomRotation", p);
  const Rotate checked(degrees.low, options);
}

ArraySpec RandomRotation::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("RandomRotation", in);
  return in;
}

void RandomRotation::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  if (!random.chance(p_))
    return copy(in, out);
  Rotate(random.uniform(degrees_.low, degrees_.high), options_)(in, out);
}

void RandomApply::check_chance() const {
  transforms::check_chance("RandomApply", p_);
}

ArraySpec RandomApply::output_spec(const ArraySpec& in) const {
  const ArraySpec result = transform_.output_spec(in);
  require<ShapeError>(result.shape == in.shape && result.dtype == in.dtype, [&] {
    return message(
        "RandomApply: the transform makes ", result.shape, " ", result.dtype, " of ", in.shape, " ", in.dtype);
  });
  return in;
}

void RandomApply::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  random.chance(p_) ? transform_(in, out, random) : copy(in, out);
}

}  // namespace sluice::gluon::data::vision::transforms
