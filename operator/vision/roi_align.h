#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Of roi_align().
struct RoiAlignOptions {
  Shape pooled_size{7, 7};          // (height, width)
  double spatial_scale = 1;         // of coordinates of regions to those of x
  std::int64_t sampling_ratio = 0;  // points a bin and axis; 0: as many as a bin has pixels
  bool aligned = false;             // pixels are squares around their coordinates; regions may be below a pixel
};

/// Regions of images, each as a grid of bins (MXNet contrib.ROIAlign, torchvision.ops.roi_align): x (N, C, H, W) and
/// rois (R, 5), of (image, left, top, right, bottom), give (R, C) + pooled_size, the means of bilinear samples.
/// Floating types; sums in float32 or float64. The gradient is of x alone, in a fixed order of additions. Throws
/// ShapeError, DTypeError, ValueError; an image that is not there is an IndexError at the wait.
SLUICE_API NDArray roi_align(
    const NDArray& x,
    const NDArray& rois,
    const RoiAlignOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_roi_align, k_roi_samples, k_roi_samples_backward;
}  // namespace detail

}  // namespace sluice
