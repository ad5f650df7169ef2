#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Made of samples of planes (samples.h), whose gradients they have: in a fixed order, of any order of derivatives.
namespace sluice {

enum class SampleMode : std::uint8_t { bilinear, nearest };
/// What is read beside the image: zeros, its edge, or the image mirrored.
enum class SamplePadding : std::uint8_t { zeros, border, reflection };

/// Of grid_sample().
struct GridSampleOptions {
  SampleMode mode = SampleMode::bilinear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the outermost pixels, not their outer edges
};

/// x (N, C, H, W) where `grid` (N, OH, OW, 2), of (column, row) from -1 to 1, says: (N, C, OH, OW) (PyTorch
/// grid_sample; MXNet's BilinearSampler with align_corners, its grid transposed). Places are counted in float32 or
/// float64, nearest ones round halves to even; the gradient goes to x and, of bilinear, to the grid. A place of NaN, or
/// an infinite one under reflection, lies beside the image: 0 with any padding, and 0 as gradients. Floating types;
/// gives x's. Throws ShapeError, for planes of 2^30 elements or more too, and DTypeError.
SLUICE_API NDArray grid_sample(
    const NDArray& x,
    const NDArray& grid,
    const GridSampleOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Of deformable_convolution(); pairs are (height, width).
struct DeformableConvolutionOptions {
  Shape stride{1, 1};
  Shape pad{0, 0};  // on both sides, or (top, left, bottom, right)
  Shape dilation{1, 1};
  std::int64_t groups = 1;
  std::int64_t deformable_groups = 1;  // of channels that share offsets
};

/// convolution() whose taps lie where `offset` (N, 2 * groups of offsets * KH * KW, OH, OW), rows and columns in turn,
/// moves them, with bilinear samples, 0 beside x (Dai et al., 2017; MXNet contrib.DeformableConvolution; torchvision
/// deform_conv2d). `mask` (N, groups of offsets * KH * KW, OH, OW), a factor for each sample (Zhu et al., 2019), and
/// `bias` may be undefined. Samples are copied, as im2col() copies windows. Throws as convolution().
SLUICE_API NDArray deformable_convolution(
    const NDArray& x,
    const NDArray& offset,
    const NDArray& weight,
    const NDArray& bias,
    const NDArray& mask = {},
    const DeformableConvolutionOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {

extern const Operator k_grid_sample, k_deformable_convolution;

/// x (N, C, H, W) at `rows` and `columns` (N, A, B), counted in pixels, in float32 or float64: (N, C, A, B) of their
/// type, 0 beside x and at NaN. What lies beside has gradients of 0, infinite or not.
NDArray sampled(const NDArray& x, const NDArray& rows, const NDArray& columns, SampleMode mode, SourceLocation site);

}  // namespace detail

}  // namespace sluice
