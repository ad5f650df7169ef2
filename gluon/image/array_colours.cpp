#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include <sluice/engine/error.h>
#include <sluice/gluon/image/arrays.h>
#include <sluice/gluon/image/detail/images.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::image {

namespace {

using detail::Images;

constexpr double k_grey[] = {0.299, 0.587, 0.114};
// Rows I and Q of the YIQ space, and back.
constexpr double k_to_i[] = {0.596, -0.274, -0.322}, k_to_q[] = {0.211, -0.523, 0.312};
constexpr double k_from_i[] = {0.956, -0.272, -1.107}, k_from_q[] = {0.621, -0.647, 1.705};
constexpr double k_light[3][3] = {
    {55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009},
    {55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140},
    {55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203}};

void check_amount(const char* function, double amount, double most) {
  require(amount >= 0 && amount <= most && std::isfinite(amount), [&] {
    return message(function, ": an amount of ", amount);
  });
}

NDArray channel(const NDArray& x, int c, SourceLocation site) {
  return x.slice(3, c, c + 1, 1, site);
}

// The sum of the channels, each times its number: (N, H, W, 1).
NDArray mixed(const NDArray& x, const double (&numbers)[3], SourceLocation site) {
  NDArray sum = multiply(channel(x, 0, site), numbers[0], site);
  for (int c = 1; c < 3; ++c)
    sum = add(sum, multiply(channel(x, c, site), numbers[c], site), site);
  return sum;
}

NDArray grey_of(const NDArray& x, SourceLocation site) {
  return x.shape()[3] == 1 ? x : mixed(x, k_grey, site);
}

// Factors are a number, or an array (N, 1, 1, 1).
template <class Factor>
NDArray apart_from(const NDArray& middle, const NDArray& x, const Factor& factor, SourceLocation site) {
  return add(middle, multiply(subtract(x, middle, site), factor, site), site);
}

template <class Factor>
NDArray with_contrast(const NDArray& x, const Factor& factor, SourceLocation site) {
  return apart_from(mean(grey_of(x, site), {1, 2, 3}, true, site), x, factor, site);
}

template <class Factor>
NDArray with_saturation(const NDArray& x, const Factor& factor, SourceLocation site) {
  return x.shape()[3] == 1 ? x : apart_from(grey_of(x, site), x, factor, site);
}

// `cos` is the cosine less 1: no turn at all changes nothing.
template <class Factor>
NDArray with_hue(const NDArray& x, const Factor& cos, const Factor& sin, SourceLocation site) {
  if (x.shape()[3] == 1)
    return x;
  const NDArray i = mixed(x, k_to_i, site), q = mixed(x, k_to_q, site);
  const NDArray more_i = subtract(multiply(i, cos, site), multiply(q, sin, site), site);
  const NDArray more_q = add(multiply(i, sin, site), multiply(q, cos, site), site);
  std::array<NDArray, 3> channels;
  for (int c = 0; c < 3; ++c) {
    const NDArray more = add(multiply(more_i, k_from_i[c], site), multiply(more_q, k_from_q[c], site), site);
    channels[static_cast<std::size_t>(c)] = add(channel(x, c, site), more, site);
  }
  return concat(channels, 3, site);
}

NDArray factors(const Images& images, double amount, SourceLocation site) {
  return detail::numbers_for(images, std::max(0.0, 1 - amount), 1 + amount, site);
}

NDArray with_random_hue(const Images& images, const NDArray& x, double amount, SourceLocation site) {
  const NDArray angle = multiply(detail::numbers_for(images, -amount, amount, site), std::numbers::pi, site);
  return with_hue(x, subtract(cos(angle, site), 1, site), sin(angle, site), site);
}

}  // namespace

NDArray adjust_brightness(const NDArray& x, double factor, SourceLocation site) {
  const Images images = Images::colours_of("adjust_brightness", x, site);
  return images.given_back(multiply(images.values, factor, site), site);
}

NDArray adjust_contrast(const NDArray& x, double factor, SourceLocation site) {
  const Images images = Images::colours_of("adjust_contrast", x, site);
  return images.given_back(with_contrast(images.values, factor, site), site);
}

NDArray adjust_saturation(const NDArray& x, double factor, SourceLocation site) {
  const Images images = Images::colours_of("adjust_saturation", x, site);
  return images.given_back(with_saturation(images.values, factor, site), site);
}

NDArray adjust_hue(const NDArray& x, double part, SourceLocation site) {
  const Images images = Images::colours_of("adjust_hue", x, site);
  const double angle = part * std::numbers::pi;
  return images.given_back(with_hue(images.values, std::cos(angle) - 1, std::sin(angle), site), site);
}

NDArray random_brightness(const NDArray& x, double amount, SourceLocation site) {
  return random_color_jitter(x, amount, 0, 0, 0, site);
}

NDArray random_contrast(const NDArray& x, double amount, SourceLocation site) {
  return random_color_jitter(x, 0, amount, 0, 0, site);
}

NDArray random_saturation(const NDArray& x, double amount, SourceLocation site) {
  return random_color_jitter(x, 0, 0, amount, 0, site);
}

NDArray random_hue(const NDArray& x, double amount, SourceLocation site) {
  return random_color_jitter(x, 0, 0, 0, amount, site);
}

NDArray random_color_jitter(
    const NDArray& x, double brightness, double contrast, double saturation, double hue, SourceLocation site) {
  constexpr double k_any = std::numeric_limits<double>::max();
  check_amount("random_brightness", brightness, k_any);
  check_amount("random_contrast", contrast, k_any);
  check_amount("random_saturation", saturation, k_any);
  check_amount("random_hue", hue, 1);
  const Images images = Images::colours_of("random_color_jitter", x, site);
  NDArray y = images.values;
  if (brightness > 0)
    y = multiply(y, factors(images, brightness, site), site);
  if (contrast > 0)
    y = with_contrast(y, factors(images, contrast, site), site);
  if (saturation > 0)
    y = with_saturation(y, factors(images, saturation, site), site);
  if (hue > 0)
    y = with_random_hue(images, y, hue, site);
  return images.given_back(y, site);
}

NDArray random_lighting(const NDArray& x, double alpha, SourceLocation site) {
  check_amount("random_lighting", alpha, std::numeric_limits<double>::max());
  const Images images = Images::colours_of("random_lighting", x, site);
  require<ShapeError>(
      images.channels() == 3, [&] { return message("random_lighting: images of 3 channels, not ", x.shape()); });
  const ArrayOptions options{.dtype = images.values.dtype(), .device = x.device()};
  const NDArray strengths = random::normal(0, alpha, {images.count(), 1, 1, 3}, options, site);
  const NDArray light = concat(
      {mixed(strengths, k_light[0], site), mixed(strengths, k_light[1], site), mixed(strengths, k_light[2], site)},
      3,
      site);
  return images.given_back(add(images.values, light, site), site);
}

NDArray random_gray(const NDArray& x, double p, SourceLocation site) {
  detail::check_chance("random_gray", p);
  const Images images = Images::colours_of("random_gray", x, site);
  const NDArray chosen = random::bernoulli(p, {images.count(), 1, 1, 1}, {.dtype = bool_, .device = x.device()}, site);
  return images.given_back(where(chosen, grey_of(images.values, site), images.values, site), site);
}

}  // namespace sluice::image
