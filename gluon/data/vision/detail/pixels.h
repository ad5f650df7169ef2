#pragma once

#include <array>
#include <cstdint>

#include <sluice/gluon/data/vision/image_size.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/operator.h>

// What transforms do to the pixels of one contiguous image (height, width, channels) in host memory. Those that reckon
// take uint8, whose results are rounded and kept within 0 to 255, and float32.
namespace sluice::gluon::data::vision::detail {

/// Throws ValueError unless there is a pixel in it.
void check_size(const char* transform, const ImageSize& size);
/// Throws ShapeError unless `in` is (H, W, C) with pixels.
void check_image(const char* transform, const ArraySpec& in);
/// And DTypeError unless it is uint8 or float32.
void check_reckoned(const char* transform, const ArraySpec& in);
/// And ShapeError unless it has 1 or 3 channels.
void check_colours(const char* transform, const ArraySpec& in);
/// `in` with other sides.
ArraySpec with_size(const ArraySpec& in, const ImageSize& size);

/// Part of an image.
struct CropBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Any element type. Where the box reaches beyond the image stands `beyond`, an element of it.
void crop(const TensorView& in, const CropBox& box, const TensorView& out, const void* beyond = nullptr);
/// The box, which lies in the image and is an image of its own at its edges, in the size of `out`.
void resample(const TensorView& in, const CropBox& box, const TensorView& out, const InterpolationOptions& how);
/// Any element type; axis 0: upside down, 1: left and right change places.
void flip(const TensorView& in, int axis, const TensorView& out);
/// Sine and cosine; of quarter turns exact.
struct Turn {
  double sin, cos;
  explicit Turn(double degrees);
};
/// Turned around its middle, counter-clockwise, and magnified by 1 / `step`; black where nothing was.
void rotate(const TensorView& in, double degrees, double step, const TensorView& out);
/// The `step` with which a rotated image fills `size` (in), or lies in it as a whole (out).
double step_to_fill(const ImageSize& size, double degrees);
double step_to_show_all(const ImageSize& size, double degrees);

/// Colours as an affine function of colours.
struct ColourMap {
  std::array<std::array<float, 3>, 3> times = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  std::array<float, 3> plus = {};
};
ColourMap brightness(float factor);
/// `grey`: what is kept, the image's mean brightness.
ColourMap contrast(float factor, float grey);
ColourMap saturation(float factor);
/// Hue turned by `part` of half a circle, in the plane of I and Q of the YIQ space.
ColourMap hue(float part);
/// First `first`, then `second`.
ColourMap chained(const ColourMap& second, const ColourMap& first);
/// Mean red, green and blue.
std::array<float, 3> mean_colour(const TensorView& in);
/// How bright a colour is (ITU-R 601).
float grey_of(const std::array<float, 3>& colour);
std::array<float, 3> mapped(const ColourMap& map, const std::array<float, 3>& colour);
/// An image of one channel counts as grey: it is mapped as such, by red.
void map_colours(const TensorView& in, const ColourMap& map, const TensorView& out);

/// Of float32 to an element.
template <class T>
T to_element(float value) {
  if constexpr (sizeof(T) == 1) {
    // Not a NaN, nor beyond what fits, where the conversion would not be defined.
    const float within = value > 0 ? (value < 255 ? value : 255.0f) : 0.0f;
    return static_cast<T>(static_cast<int>(within + 0.5f));
  } else {
    return value;
  }
}

}  // namespace sluice::gluon::data::vision::detail
