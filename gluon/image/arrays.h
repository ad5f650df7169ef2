#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/gluon/data/vision/image_size.h>
#include <sluice/gluon/image/image.h>
#include <sluice/ndarray/ndarray.h>

/// Images as arrays on any device, put together of operators, whose gradients they have: MXNet's npx.image. An image is
/// (H, W, C), a batch (N, H, W, C), of uint8 or a floating type; what bytes become is rounded and kept within 0 to 255.
/// Random functions draw numbers of its own for each image, on the device. Nothing waits. All throw ShapeError and
/// DTypeError for other arrays, ValueError for amounts out of range.
namespace sluice::image {

using gluon::data::vision::ImageSize;
using gluon::data::vision::InterpolationOptions;
using gluon::data::vision::RotateOptions;

/// uint8 (.., H, W, C) as float32 (.., C, H, W), divided by 255.
SLUICE_API NDArray to_tensor(const NDArray& x, SourceLocation site = SourceLocation::current());
/// (x - mean[c]) / std[c] of floating (.., C, H, W); one number serves all channels.
SLUICE_API NDArray normalize(
    const NDArray& x,
    const std::vector<double>& mean,
    const std::vector<double>& std,
    SourceLocation site = SourceLocation::current());

/// The image in another size, by resize2d().
SLUICE_API NDArray resize(
    const NDArray& x,
    ImageSize size,
    const InterpolationOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Encoded images as a batch uint8 (N, height, width, C) on `device`: each decoded by imdecode(), resized where it has
/// another size, and stacked. Throws ValueError for no images and for options.channels of 0, and as imdecode().
SLUICE_API NDArray imdecode_batch(
    std::span<const std::vector<std::uint8_t>> files,
    ImageSize size,
    const DecodeOptions& options,
    Device device,
    const InterpolationOptions& interpolation = {},
    SourceLocation site = SourceLocation::current());
/// The part from column x0 and row y0 on, which lies within the image: a view.
SLUICE_API NDArray crop(
    const NDArray& x,
    std::int64_t x0,
    std::int64_t y0,
    std::int64_t width,
    std::int64_t height,
    SourceLocation site = SourceLocation::current());
/// The middle, no larger than the image: a view.
SLUICE_API NDArray center_crop(const NDArray& x, ImageSize size, SourceLocation site = SourceLocation::current());
/// What stands around images before parts of them are taken.
struct CropPadding {
  std::int64_t pad = 0;  // pixels on each side
  double value = 0;      // of their channels; of bytes rounded and kept within 0 to 255
};
/// A part no larger than the image, padding included, of each image another one (torchvision's RandomCrop with
/// padding). Throws ValueError for a padding below 0 or of more than 2^20 pixels.
SLUICE_API NDArray random_crop(
    const NDArray& x, ImageSize size, const CropPadding& padding = {}, SourceLocation site = SourceLocation::current());
/// A part of random area, `scale` of the image's, and shape, `ratio` of width to height, of each image another one, in
/// that size, bilinear. A side longer than the image's is cut to it.
SLUICE_API NDArray random_resized_crop(
    const NDArray& x,
    ImageSize size,
    std::pair<double, double> scale = {0.08, 1},
    std::pair<double, double> ratio = {0.75, 4.0 / 3},
    SourceLocation site = SourceLocation::current());

SLUICE_API NDArray flip_left_right(const NDArray& x, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray flip_top_bottom(const NDArray& x, SourceLocation site = SourceLocation::current());
/// Each image is turned with probability p.
SLUICE_API NDArray
random_flip_left_right(const NDArray& x, double p = 0.5, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
random_flip_top_bottom(const NDArray& x, double p = 0.5, SourceLocation site = SourceLocation::current());

/// Turned around the middle, counter-clockwise, in a frame of the same size, bilinear; black where nothing was
/// (mx.image.imrotate).
SLUICE_API NDArray imrotate(
    const NDArray& x,
    double degrees,
    const RotateOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// The same, each image of a batch by an angle of its own: `degrees` (N,), floating, on the device of x.
SLUICE_API NDArray imrotate(
    const NDArray& x,
    const NDArray& degrees,
    const RotateOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Each image by another angle within the limits, with probability p (mx.image.random_rotate).
SLUICE_API NDArray random_rotate(
    const NDArray& x,
    std::pair<double, double> degrees,
    const RotateOptions& options = {},
    double p = 1,
    SourceLocation site = SourceLocation::current());

/// Colours times `factor`; images of 1 or 3 channels, here and below.
SLUICE_API NDArray adjust_brightness(const NDArray& x, double factor, SourceLocation site = SourceLocation::current());
/// Distances from the image's mean grey times `factor`.
SLUICE_API NDArray adjust_contrast(const NDArray& x, double factor, SourceLocation site = SourceLocation::current());
/// Distances from the pixel's grey times `factor`.
SLUICE_API NDArray adjust_saturation(const NDArray& x, double factor, SourceLocation site = SourceLocation::current());
/// Hue turned by `part` of half a circle in the YIQ space.
SLUICE_API NDArray adjust_hue(const NDArray& x, double part, SourceLocation site = SourceLocation::current());

/// The same by a factor within 1 - amount to 1 + amount (from 0 on), of each image another one.
SLUICE_API NDArray random_brightness(const NDArray& x, double amount, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray random_contrast(const NDArray& x, double amount, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray random_saturation(const NDArray& x, double amount, SourceLocation site = SourceLocation::current());
/// Hue turned by up to `amount` of half a circle.
SLUICE_API NDArray random_hue(const NDArray& x, double amount, SourceLocation site = SourceLocation::current());
/// The four in this order; bytes are rounded once, at the end.
SLUICE_API NDArray random_color_jitter(
    const NDArray& x,
    double brightness,
    double contrast,
    double saturation,
    double hue,
    SourceLocation site = SourceLocation::current());
/// Light added along the principal components of ImageNet's colours from 0 to 255, three channels.
SLUICE_API NDArray random_lighting(const NDArray& x, double alpha, SourceLocation site = SourceLocation::current());
/// Each image loses its colours with probability p.
SLUICE_API NDArray random_gray(const NDArray& x, double p = 0.5, SourceLocation site = SourceLocation::current());

}  // namespace sluice::image
