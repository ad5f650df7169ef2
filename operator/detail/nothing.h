#pragma once

#include <span>

#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// Has an array of `shape` (N, ..) no elements, however large N is?
bool is_empty_beside_batch(const Shape& shape) noexcept;

/// Zeros (N, ..), `shape` beside the batch, of the type of `batches[0]`, for compositions that an extent of 0 leaves
/// nothing to compute. Gives gradients of 0 to `batches`, which are (N, ..) of as many axes, and to `others`.
NDArray zeros_from(std::span<const NDArray> batches, std::span<const NDArray> others, Shape shape, SourceLocation site);

}  // namespace sluice::detail
