#include <cmath>
#include <cstdint>
#include <numbers>

#include <sluice/gluon/data/vision/detail/pixels.h>

namespace sluice::gluon::data::vision::detail {

namespace {

constexpr std::array<float, 3> k_grey = {0.299f, 0.587f, 0.114f};
// Rows I and Q of the YIQ space; each adds up to 0, so that grey has neither.
constexpr double k_to_iq[2][3] = {{0.596, -0.274, -0.322}, {0.211, -0.523, 0.312}};
constexpr double k_from_iq[3][2] = {{0.956, 0.621}, {-0.272, -0.647}, {-1.107, 1.705}};

template <class T>
std::array<float, 3> mean_as(const TensorView& in) {
  const std::int64_t channels = in.shape[2], pixels = in.shape[0] * in.shape[1];
  const T* from = in.as<T>();
  std::array<double, 3> sum = {};
  for (std::int64_t i = 0; i < pixels; ++i, from += channels) {
    for (std::int64_t c = 0; c < channels; ++c)
      sum[static_cast<std::size_t>(c)] += static_cast<double>(from[c]);
  }
  std::array<float, 3> mean;
  for (std::size_t c = 0; c < 3; ++c)
    mean[c] = static_cast<float>(sum[channels == 1 ? 0 : c] / static_cast<double>(pixels));
  return mean;
}

template <class T>
void map_as(const TensorView& in, const ColourMap& map, const TensorView& out) {
  const std::int64_t channels = in.shape[2], pixels = in.shape[0] * in.shape[1];
  const T* from = in.as<T>();
  T* to = out.as<T>();
  const auto& m = map.times;
  if (channels == 1) {
    const float times = m[0][0] + m[0][1] + m[0][2];
    for (std::int64_t i = 0; i < pixels; ++i)
      to[i] = to_element<T>(times * static_cast<float>(from[i]) + map.plus[0]);
    return;
  }
  for (std::int64_t i = 0; i < pixels; ++i, from += 3, to += 3) {
    const float red = from[0], green = from[1], blue = from[2];
    for (std::size_t c = 0; c < 3; ++c)
      to[c] = to_element<T>(m[c][0] * red + m[c][1] * green + m[c][2] * blue + map.plus[c]);
  }
}

}  // namespace

ColourMap brightness(float factor) {
  ColourMap map;
  for (std::size_t c = 0; c < 3; ++c)
    map.times[c][c] = factor;
  return map;
}

ColourMap contrast(float factor, float grey) {
  ColourMap map = brightness(factor);
  map.plus.fill((1 - factor) * grey);
  return map;
}

ColourMap saturation(float factor) {
  ColourMap map = brightness(factor);
  for (auto& row : map.times) {
    for (std::size_t c = 0; c < 3; ++c)
      row[c] += (1 - factor) * k_grey[c];
  }
  return map;
}

ColourMap hue(float part) {
  const double cos = std::cos(part * std::numbers::pi) - 1, sin = std::sin(part * std::numbers::pi);
  ColourMap map;
  for (std::size_t c = 0; c < 3; ++c) {
    const double i = k_from_iq[c][0] * cos + k_from_iq[c][1] * sin, q = k_from_iq[c][1] * cos - k_from_iq[c][0] * sin;
    for (std::size_t k = 0; k < 3; ++k)
      map.times[c][k] += static_cast<float>(i * k_to_iq[0][k] + q * k_to_iq[1][k]);
  }
  return map;
}

ColourMap chained(const ColourMap& second, const ColourMap& first) {
  ColourMap map{.times = {}, .plus = mapped(second, first.plus)};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t j = 0; j < 3; ++j)
        map.times[c][k] += second.times[c][j] * first.times[j][k];
    }
  }
  return map;
}

std::array<float, 3> mean_colour(const TensorView& in) {
  return in.dtype == uint8 ? mean_as<std::uint8_t>(in) : mean_as<float>(in);
}

float grey_of(const std::array<float, 3>& colour) {
  return k_grey[0] * colour[0] + k_grey[1] * colour[1] + k_grey[2] * colour[2];
}

std::array<float, 3> mapped(const ColourMap& map, const std::array<float, 3>& colour) {
  std::array<float, 3> result = map.plus;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t k = 0; k < 3; ++k)
      result[c] += map.times[c][k] * colour[k];
  }
  return result;
}

void map_colours(const TensorView& in, const ColourMap& map, const TensorView& out) {
  if (in.dtype == uint8) {
    map_as<std::uint8_t>(in, map, out);
  } else {
    map_as<float>(in, map, out);
  }
}

}  // namespace sluice::gluon::data::vision::detail
