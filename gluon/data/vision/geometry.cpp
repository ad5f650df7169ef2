#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/vision/detail/pixels.h>

namespace sluice::gluon::data::vision::detail {

namespace {

// Elements by their size: nothing is reckoned with them.
template <std::size_t k_bytes>
struct Opaque {
  std::byte bytes[k_bytes];
};

template <class Call>
void by_size(std::size_t bytes, const Call& call) {
  switch (bytes) {
    case 1:
      return call(Opaque<1>());
    case 2:
      return call(Opaque<2>());
    case 4:
      return call(Opaque<4>());
    default:
      return call(Opaque<8>());
  }
}

template <class T>
struct Sampler {
  const T* pixels;
  std::int64_t height, width, channels;

  // Four neighbours; those beyond the edges are black.
  void operator()(double y, double x, T* to) const {
    const double top = std::floor(y), left = std::floor(x);
    const auto down = static_cast<float>(y - top), right = static_cast<float>(x - left);
    const float weights[] = {(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right};
    for (std::int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int k = 0; k < 4; ++k) {
        const std::int64_t i = static_cast<std::int64_t>(top) + k / 2, j = static_cast<std::int64_t>(left) + k % 2;
        if (i >= 0 && i < height && j >= 0 && j < width)
          sum += weights[k] * static_cast<float>(pixels[(i * width + j) * channels + c]);
      }
      to[c] = to_element<T>(sum);
    }
  }
};

template <class T>
void rotate_as(const TensorView& in, const Turn& turn, double step, const TensorView& out) {
  const std::int64_t height = in.shape[0], width = in.shape[1], channels = in.shape[2];
  const Sampler<T> sample{in.as<T>(), height, width, channels};
  const double middle_y = static_cast<double>(height - 1) / 2, middle_x = static_cast<double>(width - 1) / 2;
  T* to = out.as<T>();
  for (std::int64_t i = 0; i < height; ++i) {
    const double y = (static_cast<double>(i) - middle_y) * step;
    for (std::int64_t j = 0; j < width; ++j, to += channels) {
      const double x = (static_cast<double>(j) - middle_x) * step;
      sample(middle_y + turn.sin * x + turn.cos * y, middle_x + turn.cos * x - turn.sin * y, to);
    }
  }
}

// How many times a turned frame of that size is as high or as wide as it was, the larger of the two, at least 1.
double growth(double height, double width, double degrees) {
  const Turn turn(degrees);
  const auto ratio = [](double covered, double had) { return covered > had ? covered / had : 1; };
  return std::max(
      ratio(std::abs(turn.sin) * width + std::abs(turn.cos) * height, height),
      ratio(std::abs(turn.cos) * width + std::abs(turn.sin) * height, width));
}

}  // namespace

Turn::Turn(double degrees) {
  const double radians = degrees * (std::numbers::pi / 180);
  sin = std::sin(radians);
  cos = std::cos(radians);
  for (double* part : {&sin, &cos}) {
    if (const double whole = std::round(*part); std::abs(*part - whole) < 1e-12)
      *part = whole;
  }
}

void check_image(const char* transform, const ArraySpec& in) {
  require<ShapeError>(in.shape.ndim() == 3 && in.shape.size() > 0, [&] {
    return message(transform, ": an image is (height, width, channels) with pixels, this is ", in.shape);
  });
}

void check_size(const char* transform, const ImageSize& size) {
  require(size.height >= 1 && size.width >= 1, [&] {
    return message(transform, ": a size of ", size.height, " x ", size.width, " pixels");
  });
}

void check_reckoned(const char* transform, const ArraySpec& in) {
  check_image(transform, in);
  require<DTypeError>(in.dtype == uint8 || in.dtype == float32, [&] {
    return message(transform, ": images are uint8 or float32, this is ", in.dtype);
  });
}

void check_colours(const char* transform, const ArraySpec& in) {
  check_reckoned(transform, in);
  require<ShapeError>(in.shape[2] == 1 || in.shape[2] == 3, [&] {
    return message(transform, ": colours have 1 or 3 channels, this image is ", in.shape);
  });
}

ArraySpec with_size(const ArraySpec& in, const ImageSize& size) {
  return {.shape = {size.height, size.width, in.shape[2]}, .dtype = in.dtype};
}

void crop(const TensorView& in, const CropBox& box, const TensorView& out, const void* beyond) {
  by_size(size_of(in.dtype), [&](auto element) {
    using T = decltype(element);
    if (beyond != nullptr)
      std::memcpy(&element, beyond, sizeof(T));
    const std::int64_t channels = in.shape[2];
    const std::int64_t begin = std::clamp(-box.left, std::int64_t{0}, box.width);
    const std::int64_t end = std::clamp(in.shape[1] - box.left, begin, box.width);
    auto* to = static_cast<T*>(out.data);
    for (std::int64_t i = 0; i < box.height; ++i, to += box.width * channels) {
      const std::int64_t row = box.top + i;
      const bool within = row >= 0 && row < in.shape[0];
      const std::int64_t first = within ? begin : 0, last = within ? end : 0;
      std::fill(to, to + first * channels, element);
      if (last > first) {
        const T* from = static_cast<const T*>(in.data) + (row * in.shape[1] + box.left + first) * channels;
        std::memcpy(to + first * channels, from, static_cast<std::size_t>((last - first) * channels) * sizeof(T));
      }
      std::fill(to + last * channels, to + box.width * channels, element);
    }
  });
}

void flip(const TensorView& in, int axis, const TensorView& out) {
  by_size(size_of(in.dtype), [&](auto element) {
    using T = decltype(element);
    const std::int64_t height = in.shape[0], width = in.shape[1], channels = in.shape[2], n = width * channels;
    auto* to = static_cast<T*>(out.data);
    for (std::int64_t i = 0; i < height; ++i, to += n) {
      const T* row = static_cast<const T*>(in.data) + (axis == 0 ? height - 1 - i : i) * n;
      if (axis == 0) {
        std::memcpy(to, row, static_cast<std::size_t>(n) * sizeof(T));
        continue;
      }
      for (std::int64_t j = 0; j < width; ++j)
        std::copy_n(row + (width - 1 - j) * channels, channels, to + j * channels);
    }
  });
}

void rotate(const TensorView& in, double degrees, double step, const TensorView& out) {
  const Turn turn(degrees);
  if (in.dtype == uint8) {
    rotate_as<std::uint8_t>(in, turn, step, out);
  } else {
    rotate_as<float>(in, turn, step, out);
  }
}

double step_to_fill(const ImageSize& size, double degrees) {
  // From middle to middle of the outermost pixels: what lies beyond mixes with black.
  return 1 / growth(static_cast<double>(size.height - 1), static_cast<double>(size.width - 1), degrees);
}

double step_to_show_all(const ImageSize& size, double degrees) {
  return growth(static_cast<double>(size.height), static_cast<double>(size.width), degrees);
}

}  // namespace sluice::gluon::data::vision::detail
