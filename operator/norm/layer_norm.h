#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

// All of these take float16, bfloat16, float32 and float64, and give x's type. Parameters have x's type, or float32
// beside a 16-bit x. Statistics are computed in float32 (float64 for float64), mean first and then squares around it,
// so that rows far from zero keep their digits; the variance is the biased one. A NaN, or for what has a mean an
// infinity, makes its whole row NaN. They throw DTypeError for other types of x, DTypeError and ShapeError for
// parameters that do not fit, ValueError for an eps that is negative or NaN. None of them blocks.

/// Normalises each row of x along `axis` to mean 0 and variance 1, then scales by gamma and adds beta, both of the
/// extent of that axis (MXNet LayerNorm; Ba, Kiros and Hinton, 2016): (x - mean) / sqrt(var + eps) * gamma + beta.
/// Throws IndexError for the axis.
SLUICE_API NDArray layer_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    int axis = -1,
    double eps = 1e-5,
    SourceLocation site = SourceLocation::current());

/// x / sqrt(mean(x^2) + eps) * gamma along `axis`, gamma of its extent (torch.nn.functional.rms_norm; Zhang and
/// Sennrich, "Root mean square layer normalization", 2019). Throws IndexError for the axis.
SLUICE_API NDArray rms_norm(
    const NDArray& x,
    const NDArray& gamma,
    int axis = -1,
    double eps = 1e-5,
    SourceLocation site = SourceLocation::current());

/// Normalises x of shape (N, C, ...) over each of `num_groups` equal groups of its channels and all that lies behind,
/// then scales by gamma and adds beta, a number a channel each, (C,) (MXNet npx.group_norm; Wu and He, 2018). Throws
/// ValueError where the channels do not make such groups, ShapeError for x of fewer than two axes.
SLUICE_API NDArray group_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    std::int64_t num_groups = 1,
    double eps = 1e-5,
    SourceLocation site = SourceLocation::current());

/// group_norm() of groups of one channel (MXNet InstanceNorm; Ulyanov, Vedaldi and Lempitsky, 2016).
SLUICE_API NDArray instance_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    double eps = 1e-5,
    SourceLocation site = SourceLocation::current());

/// Over what l2_normalization() sums, of x of shape (N, C, ...).
enum class L2Mode : std::uint8_t {
  instance,  ///< all of a sample
  channel,   ///< the channels at one place
  spatial    ///< the places of one channel
};

/// x / sqrt(sum(x^2) + eps) (MXNet L2Normalization). Throws ShapeError for x of fewer than two axes, one for
/// L2Mode::instance.
SLUICE_API NDArray l2_normalization(
    const NDArray& x,
    L2Mode mode = L2Mode::instance,
    double eps = 1e-10,
    SourceLocation site = SourceLocation::current());

/// How local_response_norm() weighs a place and its neighbours (MXNet LRN).
struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double knorm = 2;
};

/// x / (knorm + alpha / nsize * s)^beta, s the sum of squares of nsize neighbouring channels around each, those that
/// there are, of x of shape (N, C, ...) (MXNet LRN; Krizhevsky, Sutskever and Hinton, 2012). An even window has one
/// channel more in front, as PyTorch's. Throws ValueError for nsize < 1, ShapeError for x of fewer than two axes.
SLUICE_API NDArray local_response_norm(
    const NDArray& x,
    std::int64_t nsize,
    const LocalResponseNormOptions& options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
