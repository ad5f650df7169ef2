#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Of im2col() and col2im(); pairs are (height, width).
struct WindowOptions {
  Shape kernel{3, 3};
  Shape stride{1, 1};
  Shape pad{0, 0};  // zeros on both sides, or (top, left, bottom, right)
  Shape dilation{1, 1};
};

/// Windows of images as columns (MXNet im2col, PyTorch unfold): x (N, C, H, W) of any type gives (N, C * KH * KW, OH *
/// OW), zeros where a window hangs over. Throws ShapeError, ValueError for options out of range.
SLUICE_API NDArray
im2col(const NDArray& x, const WindowOptions& options = {}, SourceLocation site = SourceLocation::current());

/// Columns (N, C * KH * KW, OH * OW) added up where im2col() takes them from (MXNet col2im, PyTorch fold): gives (N, C)
/// + output_size. Sums of floating types, in float32 or float64 and in a fixed order. Throws ShapeError, ValueError for
/// options out of range, DTypeError.
SLUICE_API NDArray col2im(
    const NDArray& columns,
    const Shape& output_size,
    const WindowOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_im2col, k_col2im;
}  // namespace detail

}  // namespace sluice
