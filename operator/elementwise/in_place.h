#pragma once

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// The operator of a row, for NDArray's in-place forms.
const Operator& binary_operator(Binary row) noexcept;

}  // namespace sluice::detail
