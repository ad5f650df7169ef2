#pragma once

// Which type an elementwise operator computes in, and arrays brought to it.
#include <sluice/operator/elementwise/rows.h>
#include <sluice/operator/invoke.h>

namespace sluice::detail {

/// The type that operands of promoted type `dtype` take for an operator of this kind.
constexpr DType operand_type(RowKind kind, DType dtype) noexcept {
  switch (kind) {
    case RowKind::real:
    case RowKind::special:
      return is_floating(dtype) ? dtype : DType::float32;
    case RowKind::arithmetic:
    case RowKind::whole:
      return dtype == DType::bool_ ? DType::int64 : dtype;
    case RowKind::logical:
      return DType::bool_;
    default:
      return dtype;
  }
}
/// Whether operators of this kind compute in `dtype`.
constexpr bool takes_type(RowKind kind, DType dtype) noexcept {
  return operand_type(kind, dtype) == dtype && !(is_of_bits(kind) && is_floating(dtype));
}
/// Operator::alike of such an operator, of operands that have all become `operand`.
constexpr bool alike_elementwise(RowKind kind, DType operand, DType& dtype) noexcept {
  if (operand != dtype || !takes_type(kind, dtype))
    return false;
  if (gives_bool(kind))
    dtype = DType::bool_;
  return true;
}
/// True if an integer scalar can be written in that type (others always can).
bool scalar_fits(Scalar scalar, DType dtype) noexcept;
/// The nearest number to `scalar` that the type holds.
Scalar scalar_within(Scalar scalar, DType dtype) noexcept;
/// The type an array takes beside a scalar. Throws ValueError if the scalar does not fit it; comparisons then happen
/// in int64 instead, of uint64 in float64.
DType operand_type_beside(const char* op, RowKind kind, DType array, Scalar scalar);

/// Shape rules of elementwise operators: operands broadcast and have one type.
Specs infer_elementwise(const char* op, RowKind kind, std::span<const ArraySpec> inputs);
/// Those of their gradients, of dy and what goes with it: all of one floating type, and dy has the shape that they
/// broadcast to.
Specs infer_backward(const char* op, std::span<const ArraySpec> inputs);

}  // namespace sluice::detail
