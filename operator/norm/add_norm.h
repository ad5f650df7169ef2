#pragma once

#include <sluice/operator/norm/layer_norm_kernels.h>

// Layer norm and RMS norm with the sum of a residual stream, as plans put them together (graph/norm_sums.cpp).
namespace sluice::detail {

/// layer_norm of a + b: inputs a, b of a's shape and type, or of a half type beside an a of float32, gamma and beta;
/// layer_norm's results and then the sum, of a's type, rounded before it is normalised. Made by passes, behind
/// gradients.
extern const Operator add_layer_norm_op;
/// The same of rms_norm.
extern const Operator add_rms_norm_op;
/// The gradient of a norm and another gradient of what it read, added up: layer_norm_backward's inputs, then the other
/// one, of x's shape and type; its results, dx rounded before it is added. With `result`, a half type beside an x of
/// float32, the sum rounded to that comes last.
extern const Operator add_layer_norm_backward_op;
/// The same of rms_norm_backward.
extern const Operator add_rms_norm_backward_op;

/// Does a GPU add while it computes the gradient? Elsewhere the parts run one after the other.
bool adds_in_norm_backward(const ArraySpec& x, const Attributes& attributes) noexcept;

/// Does a GPU add while it normalises?
bool adds_in_norm(const ArraySpec& x, const Attributes& attributes) noexcept;

void add_norm_cpu(const KernelCall& call);
void add_norm_gpu(const KernelCall& call);
void add_norm_backward_cpu(const KernelCall& call);
void add_norm_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
