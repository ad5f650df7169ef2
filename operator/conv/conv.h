#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Pairs are (height, width).
struct ConvolutionOptions {
  Shape stride{1, 1};
  Shape pad{0, 0};  // zeros on both sides
  Shape dilation{1, 1};
  std::int64_t groups = 1;
};

/// 2-D cross-correlation (MXNet Convolution): x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,) or undefined;
/// gives (N, O, OH, OW) with OH = (H + 2 pad - dilation (KH - 1) - 1) / stride + 1. Operands of one type: float32,
/// float64, float16, bfloat16 (sums in float32). Throws ShapeError, DTypeError, ValueError for attributes out of
/// range, UnsupportedError for other types.
SLUICE_API NDArray convolution(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const ConvolutionOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator convolution_op;
extern const Operator convolution_backward_data_op;
extern const Operator convolution_backward_weights_op;
}  // namespace detail

}  // namespace sluice
