#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Made of others, whose gradients they have; planes are resized by resize_planes (planes.h).
namespace sluice {

enum class ResizeMode : std::uint8_t { nearest, bilinear, bicubic };

/// Of resize2d() and upsampling().
struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  // mixed: the first and last pixels of x and the result lie on each other
  bool antialias = false;      // mixed: of all pixels below one of a smaller result
};

/// x (N, C, H, W) as (N, C) + size (MXNet contrib.BilinearResize2D, PyTorch interpolate). Nearest: pixel
/// floor(i H / OH). Bilinear: between the pixels around (i + 0.5) H / OH - 0.5, or around i (H - 1) / (OH - 1) with
/// align_corners, the outermost ones continued. Bicubic: of four by four pixels, by Keys' spline. antialias widens the
/// triangle or the spline to the pixels of a smaller result, as PyTorch and Pillow. Half types are mixed in float32.
/// Places are counted in whole numbers but for antialias.
/// Throws ShapeError, ValueError for sizes below 1 and for align_corners and antialias of nearest, and for types that
/// are not floating of the others DTypeError.
SLUICE_API NDArray resize2d(
    const NDArray& x,
    const Shape& size,
    const ResizeOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// resize2d() to `scale` times height and width (MXNet UpSampling, PyTorch nn.Upsample).
SLUICE_API NDArray upsampling(
    const NDArray& x,
    std::int64_t scale,
    const ResizeOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// How the four numbers of a box say where it is: (left, top, right, bottom), or (x, y, width, height) around a centre.
enum class BoxFormat : std::uint8_t { corner, center };

/// The area that two boxes share by the area that they cover, of each of a (.., 4) and each of b (.., 4): shape
/// a.shape[:-1] + b.shape[:-1] (MXNet contrib.box_iou, torchvision box_iou). Boxes turned inside out count as empty,
/// two empty ones give 0. Floating types, promoted. Throws ShapeError, DTypeError.
SLUICE_API NDArray box_iou(
    const NDArray& a,
    const NDArray& b,
    BoxFormat format = BoxFormat::corner,
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_resize2d, k_upsampling, k_box_iou;
}  // namespace detail

}  // namespace sluice
