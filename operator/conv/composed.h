#pragma once

#include <cstdint>
#include <string>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Made of the passes of convolution(), whose gradients they have.
namespace sluice {

/// Of convolution1d().
struct Convolution1DOptions {
  std::int64_t stride = 1;
  Shape pad{0};  // zeros on both sides, or (left, right)
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::string activation = "";  // "relu" is computed along with the sums; "" is none
};

/// 1-D cross-correlation (MXNet Convolution of a kernel of one number, PyTorch conv1d): x (N, C, W), weight
/// (O, C / groups, K), bias (O,) or undefined; gives (N, O, OW) with OW = (W + left + right - dilation (K - 1) - 1) /
/// stride + 1. Throws as convolution().
SLUICE_API NDArray convolution1d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Convolution1DOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Of deconvolution(); pairs are (height, width).
struct DeconvolutionOptions {
  Shape stride{1, 1};
  Shape pad{0, 0};  // cut off the result on both sides, or (top, left, bottom, right)
  Shape dilation{1, 1};
  Shape adj{0, 0};  // rows and columns that the result has more, at its end: below stride
  std::int64_t groups = 1;
};

/// Transposed 2-D convolution, which gives what a convolution's x has from what its result has (MXNet Deconvolution,
/// PyTorch conv_transpose2d, where adj is output_padding): x (N, C, H, W), weight (C, O / groups, KH, KW), bias (O,) or
/// undefined; gives (N, O, OH, OW) with OH = stride (H - 1) + dilation (KH - 1) + 1 - top - bottom + adj. Operands of
/// one floating type. Throws ShapeError, also where nothing would be left, DTypeError, ValueError for attributes out of
/// range.
SLUICE_API NDArray deconvolution(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const DeconvolutionOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Of deconvolution1d().
struct Deconvolution1DOptions {
  std::int64_t stride = 1;
  Shape pad{0};  // cut off the result on both sides, or (left, right)
  std::int64_t dilation = 1;
  std::int64_t adj = 0;
  std::int64_t groups = 1;
};

/// deconvolution() of one axis (PyTorch conv_transpose1d): x (N, C, W), weight (C, O / groups, K), gives (N, O, OW).
SLUICE_API NDArray deconvolution1d(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const Deconvolution1DOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_convolution1d, k_deconvolution, k_deconvolution1d;
}  // namespace detail

}  // namespace sluice
