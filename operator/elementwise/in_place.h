#pragma once

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// The operator of a row, for NDArray's in-place forms.
const Operator& binary_operator(Binary row) noexcept;
/// dx of relu from dy and y, recorded where the thread records: for operators that end with a relu.
NDArray relu_gradient(const NDArray& dy, const NDArray& y, SourceLocation site);
/// The operator behind it, of dy, any array of its type and shape, and y.
const Operator& relu_backward_operator() noexcept;
/// That of any row, of dy, x and y; null if it has none.
const Operator* unary_backward_operator(Unary row) noexcept;

}  // namespace sluice::detail
