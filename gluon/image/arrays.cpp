#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/vision/detail/pixels.h>
#include <sluice/gluon/image/arrays.h>
#include <sluice/gluon/image/detail/images.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/half.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::image {

namespace detail {

void check_images(const char* function, const NDArray& x) {
  require<ShapeError>((x.ndim() == 3 || x.ndim() == 4) && x.size() > 0, [&] {
    return message(function, ": images are (H, W, C) or (N, H, W, C) with pixels, these are ", x.shape());
  });
}

void check_chance(const char* function, double p) {
  require(p >= 0 && p <= 1, [&] { return message(function, ": a probability of ", p); });
}

Images Images::of(const char* function, const NDArray& x, SourceLocation site) {
  check_images(function, x);
  require<DTypeError>(x.dtype() == uint8 || is_floating(x.dtype()), [&] {
    return message(function, ": images are uint8 or of a floating type, these are ", x.dtype());
  });
  const bool single = x.ndim() == 3;
  const NDArray batch = single ? x.expand_dims(0, site) : x;
  return {x.dtype() == uint8 ? batch.astype(float32, site) : batch, x.dtype(), single};
}

Images Images::colours_of(const char* function, const NDArray& x, SourceLocation site) {
  Images images = of(function, x, site);
  require<ShapeError>(images.channels() == 1 || images.channels() == 3, [&] {
    return message(function, ": colours have 1 or 3 channels, these images are ", x.shape());
  });
  return images;
}

NDArray Images::given_back(const NDArray& result, SourceLocation site) const {
  NDArray y = result;
  if (dtype == uint8)
    y = floor(add(clip(y, 0, 255, site), 0.5, site), site).astype(uint8, site);
  if (!single)
    return y;
  const Shape& shape = y.shape();
  return y.reshape({shape[1], shape[2], shape[3]}, site);
}

NDArray numbers_for(const Images& images, double low, double high, SourceLocation site) {
  const NDArray& values = images.values;
  return random::uniform(
      low, high, {images.count(), 1, 1, 1}, {.dtype = values.dtype(), .device = values.device()}, site);
}

}  // namespace detail

namespace {

using detail::Images;

void check_part(
    const char* function, const NDArray& x, std::int64_t x0, std::int64_t y0, std::int64_t width, std::int64_t height) {
  detail::check_images(function, x);
  const int down = x.ndim() - 3;
  require<ShapeError>(
      x0 >= 0 && y0 >= 0 && width >= 1 && height >= 1 && y0 <= x.shape()[down] - height &&
          x0 <= x.shape()[down + 1] - width,
      [&] {
        return message(
            function, ": ", height, " x ", width, " pixels from row ", y0, ", column ", x0, " of images ", x.shape());
      });
}

NDArray to_channels_first(const NDArray& x, SourceLocation site) {
  return x.ndim() == 3 ? x.transpose({2, 0, 1}, site) : x.transpose({0, 3, 1, 2}, site);
}

NDArray turned_by_chance(const char* function, const NDArray& x, int axis, double p, SourceLocation site) {
  detail::check_images(function, x);
  detail::check_chance(function, p);
  const Shape shape = x.ndim() == 3 ? Shape{1, 1, 1} : Shape{x.shape()[0], 1, 1, 1};
  const NDArray turns = random::bernoulli(p, shape, {.dtype = bool_, .device = x.device()}, site);
  return where(turns, flip(x, axis - 3 + x.ndim(), site), x, site);
}

// Whole numbers from 0 up to the room that is left, one for each image, and the numbers after it: (N, 1, n) or so.
NDArray places(const NDArray& x, std::int64_t room, std::int64_t n, const Shape& along, SourceLocation site) {
  const std::int64_t images = x.shape()[0];
  const ArrayOptions options{.dtype = int64, .device = x.device()};
  const NDArray first = random::randint(0, room + 1, {images, 1, 1}, options, site);
  return add(first, arange(0, static_cast<double>(n), 1, options, site).reshape(along, site), site);
}

}  // namespace

NDArray to_tensor(const NDArray& x, SourceLocation site) {
  detail::check_images("to_tensor", x);
  require<DTypeError>(
      x.dtype() == uint8, [&] { return message("to_tensor: images are uint8, these are ", x.dtype()); });
  return divide(to_channels_first(x, site).astype(float32, site), 255, site);
}

namespace {

// The value that arithmetic of the type has for it: denormals count as 0.
double as_counted(double value, DType dtype) {
  if (dtype == float64)
    return std::abs(value) < std::numeric_limits<double>::min() ? 0 : value;
  auto rounded = static_cast<float>(value);
  if (dtype == float16)
    rounded = sluice::detail::half_value(sluice::detail::half_bits(rounded));
  else if (dtype == bfloat16)
    rounded = sluice::detail::bfloat_value(sluice::detail::bfloat_bits(rounded));
  return std::abs(rounded) < std::numeric_limits<float>::min() ? 0 : rounded;
}

}  // namespace

NDArray normalize(
    const NDArray& x, const std::vector<double>& mean, const std::vector<double>& std, SourceLocation site) {
  require<ShapeError>(x.ndim() == 3 || x.ndim() == 4, [&] {
    return message("normalize: images are (C, H, W) or (N, C, H, W), these are ", x.shape());
  });
  require<DTypeError>(is_floating(x.dtype()), [&] {
    return message("normalize: values are of a floating type, these are ", x.dtype());
  });
  require(!mean.empty() && mean.size() == std.size(), [&] {
    return message("normalize: ", mean.size(), " means and ", std.size(), " deviations");
  });
  for (std::size_t i = 0; i < std.size(); ++i) {
    const bool fits = std::isfinite(as_counted(mean[i], x.dtype())) && std::isfinite(as_counted(std[i], x.dtype()));
    require(fits && as_counted(std[i], x.dtype()) > 0, [&] {
      return message("normalize: mean ", mean[i], " and deviation ", std[i], " are not of ", x.dtype());
    });
  }
  if (mean.size() == 1)
    return divide(subtract(x, mean[0], site), std[0], site);
  const auto channels = static_cast<std::int64_t>(mean.size());
  require<ShapeError>(x.shape()[x.ndim() - 3] == channels, [&] {
    return message("normalize: ", channels, " channels do not fit images of ", x.shape());
  });
  const auto of_channels = [&](const std::vector<double>& numbers) {
    return array(numbers, {channels, 1, 1}, cpu(), site).astype(x.dtype(), site).to(x.device(), site);
  };
  return divide(subtract(x, of_channels(mean), site), of_channels(std), site);
}

NDArray resize(const NDArray& x, ImageSize size, const InterpolationOptions& options, SourceLocation site) {
  const Images images = Images::of("resize", x, site);
  const ResizeOptions how{.mode = options.mode, .antialias = options.antialias && options.mode != ResizeMode::nearest};
  const NDArray resized = resize2d(to_channels_first(images.values, site), {size.height, size.width}, how, site);
  return images.given_back(resized.transpose({0, 2, 3, 1}, site), site);
}

NDArray crop(
    const NDArray& x, std::int64_t x0, std::int64_t y0, std::int64_t width, std::int64_t height, SourceLocation site) {
  check_part("crop", x, x0, y0, width, height);
  return x.slice(-3, y0, y0 + height, 1, site).slice(-2, x0, x0 + width, 1, site);
}

NDArray center_crop(const NDArray& x, ImageSize size, SourceLocation site) {
  check_part("center_crop", x, 0, 0, size.width, size.height);
  const int down = x.ndim() - 3;
  const std::int64_t y0 = (x.shape()[down] - size.height) / 2, x0 = (x.shape()[down + 1] - size.width) / 2;
  return crop(x, x0, y0, size.width, size.height, site);
}

namespace {

NDArray padded(const NDArray& batch, const CropPadding& padding, SourceLocation site) {
  const std::int64_t n = padding.pad;
  if (n == 0)
    return batch;
  const auto value = static_cast<float>(padding.value);
  const double there = batch.dtype() == uint8
                           ? static_cast<double>(gluon::data::vision::detail::to_element<std::uint8_t>(value))
                           : padding.value;
  return pad(batch, {{0, 0}, {n, n}, {n, n}, {0, 0}}, PadMode::constant, there, site);
}

}  // namespace

NDArray random_crop(const NDArray& x, ImageSize size, const CropPadding& padding, SourceLocation site) {
  require(padding.pad >= 0 && padding.pad <= 1 << 20, [&] {
    return message("random_crop: a padding of ", padding.pad, " pixels");
  });
  detail::check_images("random_crop", x);
  const NDArray batch = padded(x.ndim() == 3 ? x.expand_dims(0, site) : x, padding, site);
  check_part("random_crop", batch, 0, 0, size.width, size.height);
  const Shape& shape = batch.shape();
  const NDArray image = arange(0, static_cast<double>(shape[0]), 1, {.dtype = int64, .device = x.device()}, site)
                            .reshape({-1, 1, 1}, site);
  const NDArray rows = places(batch, shape[1] - size.height, size.height, {1, size.height, 1}, site);
  const NDArray columns = places(batch, shape[2] - size.width, size.width, {1, 1, size.width}, site);
  const NDArray parts = take(batch, {image, rows, columns}, 0, IndexMode::raise, site);
  return x.ndim() == 3 ? parts.reshape({size.height, size.width, shape[3]}, site) : parts;
}

NDArray random_resized_crop(
    const NDArray& x,
    ImageSize size,
    std::pair<double, double> scale,
    std::pair<double, double> ratio,
    SourceLocation site) {
  const Images images = Images::of("random_resized_crop", x, site);
  require(size.height >= 1 && size.width >= 1, [&] {
    return message("random_resized_crop: a size of ", size.height, " x ", size.width, " pixels");
  });
  require(
      scale.first > 0 && scale.first <= scale.second && scale.second <= 1 && ratio.first > 0 &&
          ratio.first <= ratio.second && std::isfinite(ratio.second),
      [&] {
        return message(
            "random_resized_crop: scale from ",
            scale.first,
            " to ",
            scale.second,
            ", ratio from ",
            ratio.first,
            " to ",
            ratio.second);
      });
  const ArrayOptions wide{.dtype = float32, .device = x.device()};
  const Shape each = {images.count(), 1, 1};
  const auto draw = [&](double low, double high) { return random::uniform(low, high, each, wide, site); };
  // Sides as parts of the image's: their product is the area, their quotient the ratio by that of the image.
  const double skew = static_cast<double>(images.height()) / static_cast<double>(images.width());
  const NDArray area = draw(scale.first, scale.second);
  const NDArray root = sqrt(multiply(exp(draw(std::log(ratio.first), std::log(ratio.second)), site), skew, site), site);
  const NDArray side = sqrt(area, site);
  const NDArray width = minimum(multiply(side, root, site), 1, site);
  const NDArray height = minimum(divide(side, root, site), 1, site);
  // From -1 to 1: a part's middle is anywhere where the part lies within.
  const auto along = [&](const NDArray& part, std::int64_t n, const Shape& shape) {
    const NDArray middle = multiply(draw(-1, 1), subtract(1, part, site), site);
    const NDArray steps = divide(
        subtract(
            add(multiply(arange(0, static_cast<double>(n), 1, wide, site), 2, site), 1, site),
            static_cast<double>(n),
            site),
        static_cast<double>(n),
        site);
    return add(multiply(part, steps.reshape(shape, site), site), middle, site);
  };
  const Shape all = {images.count(), size.height, size.width};
  const NDArray columns = along(width, size.width, {1, 1, size.width}).broadcast_to(all, site);
  const NDArray rows = along(height, size.height, {1, size.height, 1}).broadcast_to(all, site);
  const NDArray grid = concat({columns.expand_dims(3, site), rows.expand_dims(3, site)}, 3, site);
  const NDArray parts =
      grid_sample(to_channels_first(images.values, site), grid, {.padding = SamplePadding::border}, site);
  return images.given_back(parts.transpose({0, 2, 3, 1}, site), site);
}

NDArray flip_left_right(const NDArray& x, SourceLocation site) {
  detail::check_images("flip_left_right", x);
  return flip(x, x.ndim() - 2, site);
}

NDArray flip_top_bottom(const NDArray& x, SourceLocation site) {
  detail::check_images("flip_top_bottom", x);
  return flip(x, x.ndim() - 3, site);
}

NDArray random_flip_left_right(const NDArray& x, double p, SourceLocation site) {
  return turned_by_chance("random_flip_left_right", x, 1, p, site);
}

NDArray random_flip_top_bottom(const NDArray& x, double p, SourceLocation site) {
  return turned_by_chance("random_flip_top_bottom", x, 0, p, site);
}

}  // namespace sluice::image
