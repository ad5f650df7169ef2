#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <sluice/gluon/data/detail/scratch.h>
#include <sluice/gluon/data/vision/detail/pixels.h>

namespace sluice::gluon::data::vision::detail {

namespace {

// What an axis of the result is mixed of: `count` neighbours from first[i] on, weights[i * count + ..] of each.
struct Taps {
  std::int64_t count = 1;
  std::vector<std::int64_t> first;
  std::vector<float> weights;
};

// Keys' spline.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

// What lies beyond the edges is the outermost pixel.
void add_tap(Taps& taps, std::int64_t of, std::int64_t place, double weight) {
  const auto i = static_cast<std::size_t>(of);
  const std::int64_t within = std::clamp(place - taps.first[i], std::int64_t{0}, taps.count - 1);
  taps.weights[static_cast<std::size_t>(of * taps.count + within)] += static_cast<float>(weight);
}

void add_neighbours(Taps& taps, std::int64_t of, double middle, std::int64_t in, bool is_cubic) {
  const double lower = std::floor(middle);
  const auto place = static_cast<std::int64_t>(lower);
  const double part = middle - lower;
  const std::int64_t before = is_cubic ? 1 : 0;
  taps.first[static_cast<std::size_t>(of)] = std::clamp(place - before, std::int64_t{0}, in - taps.count);
  for (std::int64_t tap = -before; tap <= 1 + before; ++tap) {
    const double apart = part - static_cast<double>(tap);
    add_tap(taps, of, place + tap, is_cubic ? cubic(apart, -0.75) : triangle(apart));
  }
}

// All pixels within `reach` of the middle, weighted by the filter that is stretched over them.
void add_pixels_below(Taps& taps, std::int64_t of, double middle, double scale, std::int64_t in, bool is_cubic) {
  const double stretch = std::max(scale, 1.0), reach = stretch * (is_cubic ? 2 : 1);
  const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(middle - reach + 1)));
  const auto end = std::min<std::int64_t>(in, static_cast<std::int64_t>(std::ceil(middle + reach)));
  const auto weight = [&](std::int64_t place) {
    const double apart = (static_cast<double>(place) - middle) / stretch;
    return is_cubic ? cubic(apart, -0.5) : triangle(apart);
  };
  double total = 0;
  for (std::int64_t place = begin; place < end; ++place)
    total += weight(place);
  taps.first[static_cast<std::size_t>(of)] = std::clamp(begin, std::int64_t{0}, in - taps.count);
  for (std::int64_t place = begin; place < end; ++place)
    add_tap(taps, of, place, weight(place) / total);
}

Taps taps_of(std::int64_t in, std::int64_t out, const InterpolationOptions& how) {
  const bool is_cubic = how.mode == ResizeMode::bicubic, nearest = how.mode == ResizeMode::nearest;
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const bool filters = how.antialias && scale > 1 && !nearest;
  Taps taps;
  std::int64_t count = nearest ? 1 : is_cubic ? 4 : 2;
  if (filters)
    count = static_cast<std::int64_t>(std::ceil(scale * (is_cubic ? 2 : 1))) * 2 + 1;
  taps.count = std::min(count, in);
  taps.first.resize(static_cast<std::size_t>(out));
  taps.weights.resize(static_cast<std::size_t>(out * taps.count));
  for (std::int64_t i = 0; i < out; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale - 0.5;
    if (nearest) {
      taps.first[static_cast<std::size_t>(i)] = i * in / out;
      taps.weights[static_cast<std::size_t>(i)] = 1;
    } else if (filters) {
      add_pixels_below(taps, i, middle, scale, in, is_cubic);
    } else if (how.antialias && is_cubic) {  // larger: Pillow's spline still
      add_pixels_below(taps, i, middle, 1, in, is_cubic);
    } else {
      add_neighbours(taps, i, middle, in, is_cubic);
    }
  }
  return taps;
}

template <class T, int k_channels>
void mix_row(const T* row, const Taps& taps, std::int64_t channels, std::int64_t out, float* to) {
  const std::int64_t c_count = k_channels > 0 ? k_channels : channels;
  for (std::int64_t i = 0; i < out; ++i, to += c_count) {
    const T* from = row + taps.first[static_cast<std::size_t>(i)] * c_count;
    const float* weights = taps.weights.data() + i * taps.count;
    for (std::int64_t c = 0; c < c_count; ++c)
      to[c] = weights[0] * static_cast<float>(from[c]);
    for (std::int64_t tap = 1; tap < taps.count; ++tap) {
      for (std::int64_t c = 0; c < c_count; ++c)
        to[c] += weights[tap] * static_cast<float>(from[tap * c_count + c]);
    }
  }
}

template <class T>
void mix_columns(const float* rows, const float* weights, std::int64_t count, std::int64_t n, float* sum, T* to) {
  for (std::int64_t j = 0; j < n; ++j)
    sum[j] = weights[0] * rows[j];
  for (std::int64_t tap = 1; tap < count; ++tap) {
    const float weight = weights[tap];
    const float* row = rows + tap * n;
    for (std::int64_t j = 0; j < n; ++j)
      sum[j] += weight * row[j];
  }
  for (std::int64_t j = 0; j < n; ++j)
    to[j] = to_element<T>(sum[j]);
}

template <class T>
void resample_as(const TensorView& in, const CropBox& box, const TensorView& out, const InterpolationOptions& how) {
  const std::int64_t channels = in.shape[2], height = out.shape[0], width = out.shape[1], n = width * channels;
  const Taps down = taps_of(box.height, height, how), right = taps_of(box.width, width, how);
  data::detail::Scratch scratch(static_cast<std::size_t>((box.height + 1) * n) * sizeof(float));
  auto* rows = scratch.as<float>();
  const auto mix = channels == 3 ? mix_row<T, 3> : channels == 1 ? mix_row<T, 1> : mix_row<T, 0>;
  for (std::int64_t i = 0; i < box.height; ++i) {
    const T* row = in.as<T>() + ((box.top + i) * in.shape[1] + box.left) * channels;
    mix(row, right, channels, width, rows + i * n);
  }
  for (std::int64_t i = 0; i < height; ++i) {
    const float* from = rows + down.first[static_cast<std::size_t>(i)] * n;
    const float* weights = down.weights.data() + i * down.count;
    mix_columns(from, weights, down.count, n, rows + box.height * n, out.as<T>() + i * n);
  }
}

}  // namespace

void resample(const TensorView& in, const CropBox& box, const TensorView& out, const InterpolationOptions& how) {
  if (box.height == out.shape[0] && box.width == out.shape[1])
    return crop(in, box, out);
  if (in.dtype == uint8) {
    resample_as<std::uint8_t>(in, box, out, how);
  } else {
    resample_as<float>(in, box, out, how);
  }
}

}  // namespace sluice::gluon::data::vision::detail
