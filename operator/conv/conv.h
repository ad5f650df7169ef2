#pragma once

#include <cstdint>
#include <string>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Pairs are (height, width).
struct ConvolutionOptions {
  Shape stride{1, 1};
  Shape pad{0, 0};  // zeros on both sides, or (top, left, bottom, right)
  Shape dilation{1, 1};
  std::int64_t groups = 1;
  std::string activation = "";  // "relu" is computed along with the sums; "" is none
};

/// 2-D cross-correlation (MXNet Convolution): x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,) or undefined;
/// gives (N, O, OH, OW) with OH = (H + top + bottom - dilation (KH - 1) - 1) / stride + 1. Operands of one type:
/// float32, float64, float16, bfloat16 (sums in float32). Throws ShapeError, DTypeError, ValueError for attributes out
/// of range.
///
/// On a GPU tensor cores (half types, float32 with set_float32_precision("high")) take and give arrays whose channels
/// are neighbours in memory (MemoryOrder::channels_last): of the same shape, with other strides. What is computed
/// element by element and pooling keep that order; operators that do not take it are given a copy. set_autotune()
/// chooses algorithms by trial. Of half types bias and activation are part of the kernel of GPUs of capability 9.0
/// where there is one group, outputs are a multiple of 8 and arrays begin at a multiple of 16 bytes: the result is
/// rounded once. Else it is before they are added, too. Where such kernels of ours run, and those of small convolutions
/// in TF32, what lies beside an image is multiplied as zeros: an infinite weight gives NaN at the edge, an infinite
/// gradient NaN in the weight's.
SLUICE_API NDArray convolution(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const ConvolutionOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator convolution_op;
extern const Operator convolution_relu_op;
extern const Operator convolution_relu_backward_op;
extern const Operator convolution_backward_data_op;
extern const Operator convolution_backward_weights_op;
}  // namespace detail

}  // namespace sluice
