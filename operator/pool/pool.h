#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Pairs are (height, width).
struct PoolOptions {
  Shape kernel{2, 2};
  Shape stride = {};              // the kernel if empty
  Shape pad{0, 0};                // on both sides, or (top, left, bottom, right)
  bool ceil_mode = false;         // keep the last window although it hangs over the edge
  bool count_include_pad = true;  // average: padding counts as zeros
  bool global = false;            // one window over all of height and width; the fields above are not used
};

/// Largest value of each window of x (N, C, H, W) (MXNet Pooling, pool_type="max"). Padding never wins; of equal values
/// the first in row-major order gets the gradient; a NaN wins. Floating types. Throws ShapeError, ValueError for
/// attributes out of range, DTypeError for other types.
SLUICE_API NDArray
max_pool2d(const NDArray& x, const PoolOptions& options = {}, SourceLocation site = SourceLocation::current());

/// Mean of each window of x (N, C, H, W) (MXNet Pooling, pool_type="avg"). Throws as max_pool2d().
SLUICE_API NDArray
avg_pool2d(const NDArray& x, const PoolOptions& options = {}, SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator max_pool2d_op;
extern const Operator max_pool2d_backward_op;
extern const Operator max_pool2d_gather_op;
extern const Operator avg_pool2d_op;
extern const Operator avg_pool2d_backward_op;
}  // namespace detail

}  // namespace sluice
