#include <cmath>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/ndarray/shape.h>

namespace sluice::gluon::data {

namespace detail {

TensorView sample_view(const void* data, const ArraySpec& spec) {
  // A view of what is only read is const by use, as with kernels' inputs.
  return {
      .data = const_cast<void*>(data),
      .shape = spec.shape,
      .strides = contiguous_strides(spec.shape),
      .size = spec.shape.size(),
      .dtype = spec.dtype};
}

TensorView batch_view(void* data, std::size_t samples, const ArraySpec& spec) {
  ArraySpec batch = spec;
  batch.shape.insert(0, static_cast<std::int64_t>(samples));
  return sample_view(data, batch);
}

ArraySpec spec_of_sample(const TensorView& batch) {
  ArraySpec spec{.shape = batch.shape, .dtype = batch.dtype};
  spec.shape.erase(0);
  return spec;
}

}  // namespace detail

namespace vision {

namespace {

void image_to_tensor(const std::uint8_t* in, const Shape& shape, float* out) {
  const std::int64_t pixels = shape[0] * shape[1], channels = shape[2];
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i)
      out[c * pixels + i] = static_cast<float>(in[i * channels + c]) / 255.0f;
  }
}

// The common case by itself: the compiler vectorises it.
void grey_to_tensor(const std::uint8_t* in, std::int64_t pixels, float* out) {
  for (std::int64_t i = 0; i < pixels; ++i)
    out[i] = static_cast<float>(in[i]) / 255.0f;
}

void convert(const void* in, const Shape& shape, void* out) {
  const auto* pixels = static_cast<const std::uint8_t*>(in);
  auto* values = static_cast<float*>(out);
  if (shape[2] == 1) {
    grey_to_tensor(pixels, shape[0] * shape[1], values);
  } else {
    image_to_tensor(pixels, shape, values);
  }
}

}  // namespace

ArraySpec ToTensor::output_spec(const ArraySpec& in) const {
  require<DTypeError>(in.dtype == uint8, [&] { return message("ToTensor: images are uint8, these are ", in.dtype); });
  require<ShapeError>(in.shape.ndim() == 3, [&] {
    return message("ToTensor: an image is (height, width, channels), this is ", in.shape);
  });
  return {.shape = {in.shape[2], in.shape[0], in.shape[1]}, .dtype = float32};
}

void ToTensor::operator()(const TensorView& in, const TensorView& out) const {
  convert(in.data, in.shape, out.data);
}

void ToTensor::apply_batch(std::span<const void* const> rows, const ArraySpec& in, const TensorView& out) const {
  data::detail::for_each_sample(rows, out, [&](const void* row, void* to) { convert(row, in.shape, to); });
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(mean.begin(), mean.end()), std_(std.begin(), std.end()) {
  require(!mean.empty() && mean.size() == std.size(), [&] {
    return message("Normalize: ", mean.size(), " means and ", std.size(), " deviations");
  });
  for (std::size_t i = 0; i < mean.size(); ++i) {
    // As they are divided by: a denormal deviation would count as 0.
    require(std::isfinite(mean_[i]) && std::isfinite(std_[i]) && std_[i] >= std::numeric_limits<float>::min(), [&] {
      return message("Normalize: mean ", mean[i], " and deviation ", std[i], " of channel ", i, " are not of float32");
    });
  }
}

ArraySpec Normalize::output_spec(const ArraySpec& in) const {
  require<DTypeError>(in.dtype == float32, [&] {
    return message("Normalize: values are float32 (as ToTensor gives them), these are ", in.dtype);
  });
  require<ShapeError>(
      in.shape.ndim() == 3 && (mean_.size() == 1 || in.shape[0] == static_cast<std::int64_t>(mean_.size())), [&] {
        return message("Normalize: ", mean_.size(), " channel(s) do not fit an image (C, H, W) of shape ", in.shape);
      });
  return in;
}

void Normalize::operator()(const TensorView& in, const TensorView& out) const {
  const std::int64_t pixels = in.shape[1] * in.shape[2];
  for (std::int64_t c = 0; c < in.shape[0]; ++c) {
    const std::size_t k = mean_.size() == 1 ? 0 : static_cast<std::size_t>(c);
    const float mean = mean_[k], std = std_[k];
    const float* from = in.as<float>() + c * pixels;
    float* to = out.as<float>() + c * pixels;
    for (std::int64_t i = 0; i < pixels; ++i)
      to[i] = (from[i] - mean) / std;
  }
}

}  // namespace vision
}  // namespace sluice::gluon::data
