#pragma once

#include <cstdint>
#include <string>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Made of a convolution of images, and of windows of depths beside the channels: what is summed up is summed up by one
// product. x is copied as often as a window is deep.
namespace sluice {

/// Of convolution3d(); triples are (depth, height, width).
struct Convolution3DOptions {
  Shape stride{1, 1, 1};
  Shape pad{0, 0, 0};  // zeros on both sides, or (front, top, left, back, bottom, right)
  Shape dilation{1, 1, 1};
  std::int64_t groups = 1;
  std::string activation = "";  // "relu" is computed along with the sums; "" is none
};

/// 3-D cross-correlation (MXNet Convolution of a kernel of three numbers, PyTorch conv3d): x (N, C, D, H, W), weight
/// (O, C / groups, KD, KH, KW), bias (O,) or undefined; gives (N, O, OD, OH, OW), each as convolution() has them.
/// Throws as convolution().
SLUICE_API NDArray convolution3d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Convolution3DOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Of deconvolution3d(); triples are (depth, height, width).
struct Deconvolution3DOptions {
  Shape stride{1, 1, 1};
  Shape pad{0, 0, 0};  // cut off the result on both sides, or (front, top, left, back, bottom, right)
  Shape dilation{1, 1, 1};
  Shape adj{0, 0, 0};  // entries that the result has more, at its end: below stride
  std::int64_t groups = 1;
};

/// Transposed 3-D convolution (MXNet Deconvolution, PyTorch conv_transpose3d): x (N, C, D, H, W), weight (C, O /
/// groups, KD, KH, KW), bias (O,) or undefined; gives (N, O, OD, OH, OW), each as deconvolution() has them. Half types
/// are computed with in float32. The gradient of convolution3d() rounds them once more, between planes and depths.
/// Throws as deconvolution().
SLUICE_API NDArray deconvolution3d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Deconvolution3DOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_convolution3d, k_deconvolution3d;
}  // namespace detail

}  // namespace sluice
