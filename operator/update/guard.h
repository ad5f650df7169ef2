#pragma once

#include <span>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// Settings of gradient_guard(). `numbers`, if defined: of the step (update_numbers()), whose rescale_grad then counts
/// in place of this one, when the guard runs.
struct GuardOptions {
  double max_norm = -1;          // negative: gradients are not scaled
  bool skip_non_finite = false;  // a step with a gradient that is inf or nan is left out
  double rescale_grad = 1;
  NDArray numbers = {};
};

/// One pass over all gradients, of any floating types, for an update to read on its device: float64 of shape (3,). The
/// first is the norm of all gradients together times rescale_grad, of squares added up in float64 in a fixed order;
/// the second the factor that brings it to max_norm, 1 where it is not above that (so of a norm that is nan); the third
/// 1, or 0 where the step is to be left out. Nobody waits. With `to`, an array of that kind, it is written there and
/// returned. Throws ValueError for a max_norm that is nan, DTypeError for other types, DeviceError.
SLUICE_API NDArray gradient_guard(
    std::span<const NDArray> grads,
    const GuardOptions& options,
    const NDArray& to = {},
    SourceLocation site = SourceLocation::current());

/// The norm of all arrays together, float64 of shape (): the square root of the sum of all squares, which are added up
/// in float64 in a fixed order. Nobody waits. 0 of no arrays; throws DTypeError, DeviceError.
SLUICE_API NDArray global_norm(std::span<const NDArray> arrays, SourceLocation site = SourceLocation::current());

}  // namespace sluice
