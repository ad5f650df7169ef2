#pragma once

#include <sluice/operator/operator.h>

// Gradients of decompositions, made of operators. Of symmetric matrices they are symmetric. Sources: M. Giles,
// "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008) for products,
// inverse, determinant, solve, Cholesky and eigenvalues; I. Murray, "Differentiation of the Cholesky decomposition"
// (2016) for its closed form; J. Townsend, "Differentiating the singular value decomposition" (2016); H.-J. Liao et
// al., "Differentiable programming tensor networks" (2019) for QR, of wide matrices D. and L. Roberts, "QR and LQ
// decomposition matrix backpropagation algorithms" (2020); G. Golub and V. Pereyra, "The differentiation of
// pseudo-inverses" (1973).
namespace sluice::detail {

/// The inverse that gradients of determinants take, so that what it refuses is said of them.
extern const Operator k_det_backward;

Arrays cholesky_gradient(const GradientCall& call);
Arrays triangular_solve_gradient(const GradientCall& call);
Arrays solve_gradient(const GradientCall& call);
Arrays inverse_gradient(const GradientCall& call);
Arrays det_gradient(const GradientCall& call);
Arrays slogdet_gradient(const GradientCall& call);
Arrays qr_gradient(const GradientCall& call);
Arrays svd_gradient(const GradientCall& call);
Arrays eigh_gradient(const GradientCall& call);
Arrays pinv_gradient(const GradientCall& call);

}  // namespace sluice::detail
