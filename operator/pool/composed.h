#pragma once

#include <cstdint>
#include <optional>

#include <sluice/operator/pool/pool.h>

// Made of max_pool2d() and avg_pool2d(), whose gradients they have.
namespace sluice {

/// Of pooling along one axis.
struct Pool1DOptions {
  std::int64_t kernel = 2;
  std::optional<std::int64_t> stride = {};  // the kernel if not given
  Shape pad{0};                             // on both sides, or (left, right)
  bool ceil_mode = false;                   // keep the last window although it hangs over the edge
  bool count_include_pad = true;            // average: padding counts as zeros
  bool global = false;                      // one window over all of the axis; the fields above are not used
};

/// max_pool2d() of x (N, C, W) along its last axis (MXNet Pooling, PyTorch max_pool1d).
SLUICE_API NDArray
max_pool1d(const NDArray& x, const Pool1DOptions& options = {}, SourceLocation site = SourceLocation::current());
/// avg_pool2d() of x (N, C, W) along its last axis (MXNet Pooling, PyTorch avg_pool1d).
SLUICE_API NDArray
avg_pool1d(const NDArray& x, const Pool1DOptions& options = {}, SourceLocation site = SourceLocation::current());

/// The p-norm of each window of x (N, C, H, W) (MXNet Pooling, pool_type="lp", PyTorch lp_pool2d, which does not take
/// magnitudes). Padding is 0; where a window has nothing but zeros the gradient is 0. Half types are added up in
/// float32. Throws as max_pool2d(), and ValueError unless p is finite and above 0.
SLUICE_API NDArray lp_pool2d(
    const NDArray& x, double p = 2, const PoolOptions& options = {}, SourceLocation site = SourceLocation::current());
/// lp_pool2d() of x (N, C, W) along its last axis (PyTorch lp_pool1d).
SLUICE_API NDArray lp_pool1d(
    const NDArray& x, double p = 2, const Pool1DOptions& options = {}, SourceLocation site = SourceLocation::current());

/// Mean of each of output_size (OH, OW) windows of x (N, C, H, W) that cover it: window i of an axis goes from
/// floor(i H / OH) to ceil((i + 1) H / OH) (MXNet contrib.AdaptiveAvgPooling2D, PyTorch adaptive_avg_pool2d). Throws as
/// avg_pool2d().
SLUICE_API NDArray adaptive_avg_pool2d(
    const NDArray& x, const Shape& output_size = {1, 1}, SourceLocation site = SourceLocation::current());
/// Largest value of each of these windows (PyTorch adaptive_max_pool2d). Of equal values the first in row-major order
/// gets the gradient; a NaN wins.
SLUICE_API NDArray adaptive_max_pool2d(
    const NDArray& x, const Shape& output_size = {1, 1}, SourceLocation site = SourceLocation::current());
/// adaptive_avg_pool2d() and adaptive_max_pool2d() of x (N, C, W) along its last axis (PyTorch's of one axis).
SLUICE_API NDArray
adaptive_avg_pool1d(const NDArray& x, std::int64_t output_size = 1, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
adaptive_max_pool1d(const NDArray& x, std::int64_t output_size = 1, SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_max_pool1d, k_avg_pool1d, k_lp_pool1d, k_lp_pool2d;
extern const Operator k_adaptive_avg_pool2d, k_adaptive_max_pool2d;
extern const Operator k_adaptive_avg_pool1d, k_adaptive_max_pool1d;
}  // namespace detail

}  // namespace sluice
