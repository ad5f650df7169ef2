#pragma once

#include <cstddef>

#include <sluice/operator/elementwise/pointwise.h>

namespace sluice::simd {

/// The loop (see PointwiseLoop) that chooses between elements of `size` bytes, 1, 4 or 8, by a bool each, in the
/// vectors of target(). Null if there is none: the plain loops serve.
detail::PointwiseLoop where_loop(std::size_t size) noexcept;

}  // namespace sluice::simd
