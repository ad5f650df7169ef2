#pragma once

#include <span>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::utils {

/// Scales all arrays, in place, so that the norm of all of them together is `max_norm` at most, and gives the norm that
/// they had: float64 of shape () (MXNet's gluon.utils.clip_global_norm, PyTorch's clip_grad_norm_). The factor is
/// max_norm / norm exactly, 1 where the norm is not above max_norm; a norm of nan leaves arrays as they are, one of inf
/// makes what is finite 0. Does not wait: whether the norm is finite is for who reads it. Of floating types, on one
/// device. Throws ValueError unless max_norm is at least 0, DTypeError, DeviceError. In a training step
/// Trainer::guard_gradients() does the same within the update.
SLUICE_API NDArray
clip_global_norm(std::span<const NDArray> arrays, double max_norm, SourceLocation site = SourceLocation::current());

}  // namespace sluice::gluon::utils
