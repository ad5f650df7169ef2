#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Made of pools of planes, then of depths, whose gradients they have: windows fall apart along their axes.
namespace sluice {

/// Triples are (depth, height, width).
struct Pool3DOptions {
  Shape kernel{2, 2, 2};
  Shape stride = {};              // the kernel if empty
  Shape pad{0, 0, 0};             // on both sides, or (front, top, left, back, bottom, right)
  bool ceil_mode = false;         // keep the last window although it hangs over the edge
  bool count_include_pad = true;  // average: padding counts as zeros
  bool global = false;            // one window over all of depth, height and width; the fields above are not used
};

/// max_pool2d() of three axes (MXNet Pooling, PyTorch max_pool3d): x (N, C, D, H, W).
SLUICE_API NDArray
max_pool3d(const NDArray& x, const Pool3DOptions& options = {}, SourceLocation site = SourceLocation::current());

/// avg_pool2d() of three axes (MXNet Pooling, PyTorch avg_pool3d): x (N, C, D, H, W).
SLUICE_API NDArray
avg_pool3d(const NDArray& x, const Pool3DOptions& options = {}, SourceLocation site = SourceLocation::current());

/// lp_pool2d() of three axes (PyTorch lp_pool3d): x (N, C, D, H, W). Throws as that.
SLUICE_API NDArray lp_pool3d(
    const NDArray& x, double p = 2, const Pool3DOptions& options = {}, SourceLocation site = SourceLocation::current());

/// adaptive_avg_pool2d() and adaptive_max_pool2d() of three axes (PyTorch's of three): x (N, C, D, H, W) and (OD, OH,
/// OW).
SLUICE_API NDArray adaptive_avg_pool3d(
    const NDArray& x, const Shape& output_size = {1, 1, 1}, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray adaptive_max_pool3d(
    const NDArray& x, const Shape& output_size = {1, 1, 1}, SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_max_pool3d, k_avg_pool3d, k_lp_pool3d;
extern const Operator k_adaptive_avg_pool3d, k_adaptive_max_pool3d;
}  // namespace detail

}  // namespace sluice
