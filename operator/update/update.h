#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

// Optimizer steps over all parameters in one task, weights and states in place. The arrays of one parameter have one
// shape; weights are of a floating type, gradients of the weight's, states float32 (float64 beside float64 weights);
// everything computes in the states' type. All arrays live on one device; weights and states are contiguous, and share
// no memory among them or with another's gradient. Nothing is recorded: AutogradError while recording. ShapeError,
// DTypeError, DeviceError and ValueError name the parameter by its number.
//
// What changes from step to step, learning rates (of Adam with the correction for the step's number) and rescale_grad,
// is part of the call, unless it brings `numbers`: then the step reads them from that array when it runs, and a step
// that was recorded can be run again with others. See update_numbers().
//
// Three things more any step may bring. `masters`: for each weight of a half type, in their order, a float32 array of
// its shape that holds the weight with all its digits (zeros at first): the step goes on from there and rounds it to
// the weight, unless the weight is no longer what the master rounds to: then somebody wrote it, and it counts.
// `guard`: what gradient_guard() made of the gradients (operator/update/guard.h): they are scaled by its factor, and
// the whole step is left out where it says so. Both take effect before clip_gradient.
//
// The steps of other optimizers: operator/update/rules.h.

/// Settings of sgd_update(). `learning_rate_multipliers` and `weight_decay_multipliers`, if not empty, hold one factor
/// a parameter. `numbers`, if defined: float64, of shape (parameters + 1,), where the weights are.
struct SgdUpdate {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;  // negative: no clipping; else gradients are cut to [-c, c] after rescaling
  std::vector<double> learning_rate_multipliers = {};
  std::vector<double> weight_decay_multipliers = {};
  NDArray numbers = {};
  std::vector<NDArray> masters = {};
  NDArray guard = {};
};

/// MXNet's sgd_mom_update: g = clip(rescale * grad) + wd * w;  m = momentum * m - lr * g;  w += m.
/// `momenta` may be empty when momentum is 0: w -= lr * g.
SLUICE_API void sgd_update(
    std::span<const NDArray> weights,
    std::span<const NDArray> grads,
    std::span<const NDArray> momenta,
    const SgdUpdate& options,
    SourceLocation site = SourceLocation::current());

/// Settings of adam_update(); multipliers and numbers as in SgdUpdate.
struct AdamUpdate {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  std::vector<std::int64_t> steps = {};  // t of each parameter, counted from 1
  std::vector<double> learning_rate_multipliers = {};
  std::vector<double> weight_decay_multipliers = {};
  NDArray numbers = {};
  std::vector<NDArray> masters = {};
  NDArray guard = {};
};

/// MXNet's adam_update (Kingma and Ba, 2014, the form before section 2.1):
///   g = clip(rescale * grad) + wd * w;  m = b1 * m + (1 - b1) * g;  v = b2 * v + (1 - b2) * g * g;
///   w -= lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon).
/// Epsilon stands beside the uncorrected sqrt(v), as in MXNet; PyTorch adds it to sqrt(v / (1 - b2^t)).
SLUICE_API void adam_update(
    std::span<const NDArray> weights,
    std::span<const NDArray> grads,
    std::span<const NDArray> means,
    std::span<const NDArray> variances,
    const AdamUpdate& options,
    SourceLocation site = SourceLocation::current());

/// The numbers of one step with these options, for an array that steps read them from: the learning rate of each
/// parameter, then rescale_grad. Throws ValueError as the step does.
SLUICE_API std::vector<double> update_numbers(const SgdUpdate& options, std::size_t parameters);
SLUICE_API std::vector<double> update_numbers(const AdamUpdate& options);

}  // namespace sluice
