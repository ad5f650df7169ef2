#include <algorithm>
#include <cmath>
#include <cstring>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/detail/scratch.h>
#include <sluice/gluon/data/vision/detail/pixels.h>
#include <sluice/gluon/data/vision/transforms.h>
#include <sluice/ndarray/convert.h>

namespace sluice::gluon::data::vision::transforms {

namespace {

ImageSize size_of_image(const Shape& shape) {
  return {shape[0], shape[1]};
}

template <class From>
void cast(const TensorView& in, const TensorView& out) {
  by_any_dtype(out.dtype, [&]<class To>() {
    const From* from = in.as<From>();
    To* to = out.as<To>();
    for (std::int64_t i = 0; i < in.size; ++i)
      to[i] = sluice::detail::convert<To>(from[i]);
  });
}

}  // namespace

ArraySpec Cast::output_spec(const ArraySpec& in) const {
  require<DTypeError>(in.dtype == uint8 || in.dtype == float32, [&] {
    return message("Cast: images are uint8 or float32, this is ", in.dtype);
  });
  return {.shape = in.shape, .dtype = dtype_};
}

void Cast::operator()(const TensorView& in, const TensorView& out) const {
  if (in.dtype == uint8) {
    cast<std::uint8_t>(in, out);
  } else {
    cast<float>(in, out);
  }
}

Resize::Resize(ImageSize size, const ResizeTransformOptions& options) : size_(size), options_(options) {
  detail::check_size("Resize", size_);
  require(!options_.keep_ratio || size_.height == size_.width, [&] {
    return message("Resize: keep_ratio takes the length of the shorter side, not ", size_.height, " x ", size_.width);
  });
}

ArraySpec Resize::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("Resize", in);
  if (!options_.keep_ratio)
    return detail::with_size(in, size_);
  const std::int64_t height = in.shape[0], width = in.shape[1], side = size_.height, shorter = std::min(height, width);
  __extension__ using Wide = __int128;
  const auto longer = static_cast<Wide>(side) * std::max(height, width) / shorter;
  require<ShapeError>(
      longer <= INT32_MAX, [&] { return message("Resize: the longer side of ", in.shape, " would be too long"); });
  const auto other = static_cast<std::int64_t>(longer);
  return detail::with_size(in, height <= width ? ImageSize(side, other) : ImageSize(other, side));
}

void Resize::operator()(const TensorView& in, const TensorView& out) const {
  detail::resample(in, {0, 0, in.shape[0], in.shape[1]}, out, options_.interpolation);
}

CenterCrop::CenterCrop(ImageSize size, const InterpolationOptions& interpolation)
    : size_(size), interpolation_(interpolation) {
  detail::check_size("CenterCrop", size_);
}

ArraySpec CenterCrop::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("CenterCrop", in);
  return detail::with_size(in, size_);
}

void CenterCrop::operator()(const TensorView& in, const TensorView& out) const {
  const std::int64_t height = std::min(size_.height, in.shape[0]), width = std::min(size_.width, in.shape[1]);
  detail::resample(in, {(in.shape[0] - height) / 2, (in.shape[1] - width) / 2, height, width}, out, interpolation_);
}

CropResize::CropResize(
    std::int64_t x,
    std::int64_t y,
    std::int64_t width,
    std::int64_t height,
    std::optional<ImageSize> size,
    const InterpolationOptions& interpolation)
    : x_(x), y_(y), width_(width), height_(height), size_(size), interpolation_(interpolation) {
  require(x >= 0 && y >= 0, [&] { return message("CropResize: the corner (", x, ", ", y, ") lies outside"); });
  detail::check_size("CropResize", {height, width});
  if (size)
    detail::check_size("CropResize", *size);
}

ArraySpec CropResize::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("CropResize", in);
  require<ShapeError>(y_ <= in.shape[0] - height_ && x_ <= in.shape[1] - width_, [&] {
    return message("CropResize: ", height_, " x ", width_, " pixels from row ", y_, ", column ", x_, " of ", in.shape);
  });
  return detail::with_size(in, size_.value_or(ImageSize(height_, width_)));
}

void CropResize::operator()(const TensorView& in, const TensorView& out) const {
  detail::resample(in, {y_, x_, height_, width_}, out, interpolation_);
}

Rotate::Rotate(double degrees, const RotateOptions& options) : degrees_(degrees), options_(options) {
  require(std::isfinite(degrees), [&] { return message("Rotate: an angle of ", degrees); });
  require(!options.zoom_in || !options.zoom_out, [] { return "Rotate: zoom_in and zoom_out exclude each other"; });
}

ArraySpec Rotate::output_spec(const ArraySpec& in) const {
  detail::check_reckoned("Rotate", in);
  return in;
}

void Rotate::operator()(const TensorView& in, const TensorView& out) const {
  const ImageSize size = size_of_image(in.shape);
  const double step = options_.zoom_in    ? detail::step_to_fill(size, degrees_)
                      : options_.zoom_out ? detail::step_to_show_all(size, degrees_)
                                          : 1;
  detail::rotate(in, degrees_, step, out);
}

TransformList::TransformList(std::vector<AnyTransform> transforms) : transforms_(std::move(transforms)) {
  require(!transforms_.empty(), [] { return "TransformList: there is no transform"; });
}

ArraySpec TransformList::output_spec(const ArraySpec& in) const {
  ArraySpec spec = in;
  for (const AnyTransform& transform : transforms_)
    spec = transform.output_spec(spec);
  return spec;
}

void TransformList::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  // Two memories in turn: what is read and what is written.
  std::optional<data::detail::Scratch> scratch[2];
  TensorView from = in;
  for (std::size_t i = 0; i + 1 < transforms_.size(); ++i) {
    const ArraySpec spec = transforms_[i].output_spec({.shape = from.shape, .dtype = from.dtype});
    auto& memory = scratch[i % 2];
    memory.reset();
    memory.emplace(data::detail::bytes_of(spec));
    const TensorView to = data::detail::sample_view(memory->as<std::byte>(), spec);
    transforms_[i](from, to, random);
    from = to;
  }
  transforms_.back()(from, out, random);
}

}  // namespace sluice::gluon::data::vision::transforms
