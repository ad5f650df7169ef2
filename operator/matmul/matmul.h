#pragma once

#include <string>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Matrix product by NumPy's rules (numpy.matmul): (m, k) x (k, n) gives (m, n); leading axes are a batch and
/// broadcast; a 1-D operand is a row (left) or a column (right) whose axis the result drops. Transposed views cost no
/// copy. Operands of two types are promoted, as elementwise operators do it; the product is float32, float64, float16,
/// bfloat16 (sums in float32), or of an integer type (sums wrap). Throws ShapeError, and DTypeError for bool.
SLUICE_API NDArray matmul(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// The same of operands whose last two axes are exchanged first where asked; vectors have none to exchange.
SLUICE_API NDArray matmul(
    const NDArray& a,
    const NDArray& b,
    bool transpose_a,
    bool transpose_b,
    SourceLocation site = SourceLocation::current());

struct DenseOptions {
  bool flatten = true;          // join all axes of x but the first; otherwise only the last axis is multiplied
  std::string activation = {};  // "" or "relu", fused into the product
};

/// activation(x W^T + bias): x (batch, ...) or (..., in), weight (units, in), bias (units,) or undefined; gives
/// (batch, units), or (..., units) without flatten (MXNet FullyConnected). Types are promoted to one, which must be a
/// floating one: DTypeError. Throws ShapeError, ValueError for another activation.
SLUICE_API NDArray dense(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const DenseOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator matmul_op;
extern const Operator matmul_relu_backward_op;  // of plans: a product, 0 where a relu gave 0
extern const Operator dense_op;
extern const Operator dense_relu_op;  // its gradient also reads the result
extern const Operator dense_backward_weights_op;
extern const Operator dense_backward_bias_op;  // the second result of dense_backward_weights alone
}  // namespace detail

}  // namespace sluice
