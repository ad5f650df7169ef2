#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.9;
  int axis = 1;                   // of the channels; may be negative
  bool use_global_stats = false;  // running statistics in training too
  bool fix_gamma = false;         // gamma counts as ones and gets a zero gradient
};

/// Normalises x, any rank, to mean 0 and variance 1 over all axes but `axis`, then scales by gamma and adds beta
/// (MXNet BatchNorm; Ioffe and Szegedy, 2015). gamma, beta, running_mean, running_var: (channels,). In training
/// (autograd::is_training()) the statistics are the batch's (biased variance), and the running ones are updated in
/// place: running = momentum * running + (1 - momentum) * batch. Otherwise the running ones are used. Parameters
/// have x's type, or float32 beside a 16-bit x; statistics are computed in float32 (float64 for float64). Gives x's
/// shape and type; does not wait. Throws ShapeError, DTypeError, IndexError for the axis, ValueError for options that
/// cannot be.
SLUICE_API NDArray batch_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    const NDArray& running_mean,
    const NDArray& running_var,
    const BatchNormOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator batch_norm_op;
extern const Operator batch_norm_predict_op;
extern const Operator batch_norm_backward_op;
/// relu(batch_norm(x, ..)) or, of a sixth input r as large as x, relu(batch_norm(x, ..) + r), each rounded as by
/// itself; beside it mean and 1 / std, (channels,). Moves the running statistics as batch_norm does in training.
extern const Operator batch_norm_relu_op;
/// batch_norm_backward of dy where the relu let it through, with beta as sixth input; of what had no r.
extern const Operator batch_norm_relu_backward_op;
/// The gradients of relu(batch_norm(x, ..) + r), of inputs dy, x, gamma, mean, 1 / std, the result y and maybe a second
/// head, which is added to dy and rounded first: of x, gamma and beta as batch_norm_backward gives them, and of r,
/// which is dy where the relu let it through, as large as x.
extern const Operator batch_norm_add_relu_backward_op;
/// Of gamma, beta, running_mean, running_var and maybe a bias in front: scale and shift, so that batch_norm_predict of
/// x + bias is x * scale + shift. Two results of float32, of float64 parameters float64.
extern const Operator batch_norm_fold_op;
}  // namespace detail

}  // namespace sluice
