#pragma once

#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/elementwise/run.h>

namespace sluice::detail {

/// The operators of a row that NDArray's in-place forms use.
struct InPlace {
  const Operator* arrays;
  const Operator* right_scalar;
  RowKind kind;
};

InPlace in_place(Binary row) noexcept;

}  // namespace sluice::detail
