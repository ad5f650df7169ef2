#include <cmath>
#include <limits>
#include <numbers>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/vision/detail/pixels.h>
#include <sluice/gluon/image/arrays.h>
#include <sluice/gluon/image/detail/images.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/vision/grid_sample.h>

namespace sluice::image {

namespace {

using detail::Images;

void check_zoom(const char* function, const RotateOptions& options) {
  require(!options.zoom_in || !options.zoom_out, [&] {
    return message(function, ": zoom_in and zoom_out exclude each other");
  });
}

// Distances of `n` pixels' middles from the middle of all, in the shape `along`.
NDArray from_middle(const Images& images, std::int64_t n, const Shape& along, SourceLocation site) {
  const DType wide = images.values.dtype() == float64 ? float64 : float32;
  const ArrayOptions options{.dtype = wide, .device = images.values.device()};
  const NDArray places = arange(0, static_cast<double>(n), 1, options, site);
  return subtract(places, static_cast<double>(n - 1) / 2, site).reshape(along, site);
}

// What is `cos` and `sin` times the step: numbers, or arrays (N, 1, 1).
template <class Factor>
NDArray turned(const Images& images, const Factor& cos, const Factor& sin, SourceLocation site) {
  const std::int64_t height = images.height(), width = images.width();
  const NDArray y = from_middle(images, height, {1, height, 1}, site);
  const NDArray x = from_middle(images, width, {1, 1, width}, site);
  const NDArray columns = subtract(multiply(x, cos, site), multiply(y, sin, site), site);
  const NDArray rows = add(multiply(x, sin, site), multiply(y, cos, site), site);
  // From -1 to 1 are the image's outer edges: sides of one pixel have some length too.
  const Shape all = {images.count(), height, width, 1};
  const auto part = [&](const NDArray& pixels, std::int64_t n) {
    return multiply(pixels, 2 / static_cast<double>(n), site).expand_dims(3, site).broadcast_to(all, site);
  };
  const NDArray grid = concat({part(columns, width), part(rows, height)}, 3, site);
  const NDArray planes = grid_sample(images.values.transpose({0, 3, 1, 2}, site), grid, {}, site);
  return planes.transpose({0, 2, 3, 1}, site);
}

// How many times what a turned frame covers is what it had, at least 1.
NDArray grown(const NDArray& covered, double had, SourceLocation site) {
  if (had > 0)
    return maximum(divide(covered, had, site), 1, site);
  return where(greater(covered, 0, site), std::numeric_limits<double>::infinity(), 1, site);
}

NDArray growth(const NDArray& cos, const NDArray& sin, double height, double width, SourceLocation site) {
  const NDArray c = abs(cos, site), s = abs(sin, site);
  const NDArray down = add(multiply(s, width, site), multiply(c, height, site), site);
  const NDArray across = add(multiply(c, width, site), multiply(s, height, site), site);
  return maximum(grown(down, height, site), grown(across, width, site), site);
}

// Of quarter turns exact, as Turn is.
NDArray snapped(const NDArray& x, SourceLocation site) {
  const NDArray whole = round(x, site);
  const double near = x.dtype() == float64 ? 1e-12 : 1e-6;
  return where(less(abs(subtract(x, whole, site), site), near, site), whole, x, site);
}

// `degrees` (N,).
NDArray turned_each(const Images& images, const NDArray& degrees, const RotateOptions& options, SourceLocation site) {
  const NDArray radians = multiply(degrees, std::numbers::pi / 180, site).reshape({images.count(), 1, 1}, site);
  const NDArray c = snapped(cos(radians, site), site), s = snapped(sin(radians, site), site);
  const auto height = static_cast<double>(images.height()), width = static_cast<double>(images.width());
  if (options.zoom_in) {
    const NDArray times = growth(c, s, height - 1, width - 1, site);
    return turned(images, divide(c, times, site), divide(s, times, site), site);
  }
  if (options.zoom_out) {
    const NDArray times = growth(c, s, height, width, site);
    return turned(images, multiply(c, times, site), multiply(s, times, site), site);
  }
  return turned(images, c, s, site);
}

}  // namespace

NDArray imrotate(const NDArray& x, double degrees, const RotateOptions& options, SourceLocation site) {
  const Images images = Images::of("imrotate", x, site);
  require(std::isfinite(degrees), [&] { return message("imrotate: an angle of ", degrees); });
  check_zoom("imrotate", options);
  namespace vision = gluon::data::vision;
  const vision::ImageSize size(images.height(), images.width());
  const double step = options.zoom_in    ? vision::detail::step_to_fill(size, degrees)
                      : options.zoom_out ? vision::detail::step_to_show_all(size, degrees)
                                         : 1;
  const vision::detail::Turn turn(degrees);
  return images.given_back(turned(images, turn.cos * step, turn.sin * step, site), site);
}

NDArray imrotate(const NDArray& x, const NDArray& degrees, const RotateOptions& options, SourceLocation site) {
  const Images images = Images::of("imrotate", x, site);
  check_zoom("imrotate", options);
  require<ShapeError>(degrees.ndim() == 1 && degrees.size() == images.count(), [&] {
    return message("imrotate: angles of shape ", degrees.shape(), " for images ", x.shape());
  });
  require<DTypeError>(is_floating(degrees.dtype()), [&] {
    return message("imrotate: angles are of a floating type, these are ", degrees.dtype());
  });
  const DType wide = images.values.dtype() == float64 ? float64 : float32;
  return images.given_back(turned_each(images, degrees.astype(wide, site), options, site), site);
}

NDArray random_rotate(
    const NDArray& x, std::pair<double, double> degrees, const RotateOptions& options, double p, SourceLocation site) {
  const Images images = Images::of("random_rotate", x, site);
  require(std::isfinite(degrees.first) && std::isfinite(degrees.second) && degrees.first <= degrees.second, [&] {
    return message("random_rotate: from ", degrees.first, " to ", degrees.second, " degrees");
  });
  check_zoom("random_rotate", options);
  detail::check_chance("random_rotate", p);
  const ArrayOptions wide{
      .dtype = images.values.dtype() == float64 ? float64 : float32, .device = images.values.device()};
  const NDArray angles = random::uniform(degrees.first, degrees.second, {images.count()}, wide, site);
  const NDArray turned = turned_each(images, angles, options, site);
  if (p == 1)
    return images.given_back(turned, site);
  const NDArray chosen = random::bernoulli(p, {images.count(), 1, 1, 1}, {.dtype = bool_, .device = x.device()}, site);
  return images.given_back(where(chosen, turned, images.values, site), site);
}

}  // namespace sluice::image
