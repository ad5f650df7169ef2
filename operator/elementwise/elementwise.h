#pragma once

#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/scalar.h>
#include <sluice/operator/elementwise/each_parameter.h>

// Elementwise operators, NumPy's by name and rule. Operands broadcast and are promoted (promote() in ndarray/dtype.h;
// scalars are weak: they take the array's type, see ndarray/scalar.h). All throw ShapeError for shapes that do not
// broadcast, DeviceError for arrays on different devices, ValueError for undefined arrays and for integer scalars that
// the array's type cannot hold. None of them blocks. The whole list stands in unary.def and binary.def, a row each.
namespace sluice {

/// f(x) of each element: negative, exp, tanh, isnan, ... (unary.def). Functions of real numbers give integers and bool
/// as float32; negative, abs, sign, square, relu, clip and the rounding ones keep integers and give bool as int64;
/// tests give bool. Rows with parameters take them behind x: leaky_relu(x, slope), clip(x, low, high).
#define SLUICE_DECLARED(type, name, value) , type name
#define UNARY_WITH(name, parameters, ...)                                  \
  SLUICE_API NDArray name(                                                 \
      const NDArray& x SLUICE_EACH_PARAMETER(SLUICE_DECLARED, parameters), \
      SourceLocation site = SourceLocation::current());
#include <sluice/operator/elementwise/unary.def>
#undef SLUICE_DECLARED

/// f(a, b) of each pair: add, divide, maximum, less, logical_and, ... (binary.def), with a number in either place.
/// Arithmetic on bool arrays happens in int64; divide, hypot, arctan2 and logaddexp give integers as float32;
/// comparisons and logical operators give bool. Bitwise operators and shifts take integers and bool alone (DTypeError).
#define BINARY(name, ...)                                                                                       \
  SLUICE_API NDArray name(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current()); \
  SLUICE_API NDArray name(const NDArray& a, Scalar b, SourceLocation site = SourceLocation::current());         \
  SLUICE_API NDArray name(Scalar a, const NDArray& b, SourceLocation site = SourceLocation::current());
#include <sluice/operator/elementwise/binary.def>
#undef BINARY

/// a where the condition (any type, non-zero = true) holds, b elsewhere; all three broadcast.
SLUICE_API NDArray
where(const NDArray& condition, const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
where(const NDArray& condition, const NDArray& a, Scalar b, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
where(const NDArray& condition, Scalar a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// Of two numbers float32 if one is real, otherwise int64, of two truths bool.
SLUICE_API NDArray where(const NDArray& condition, Scalar a, Scalar b, SourceLocation site = SourceLocation::current());

/// Sums over the axes along which `shape` was stretched to array.shape(): the gradient of broadcasting.
SLUICE_API NDArray
sum_to_shape(const NDArray& array, const Shape& shape, SourceLocation site = SourceLocation::current());

// The same functions as C++ operators; the line where they stand is the task's push site.
#define SLUICE_BINARY_OPERATOR(symbol, name)                           \
  inline NDArray operator symbol(const Operand& a, const Operand& b) { \
    return name(a.array(), b.array(), a.site());                       \
  }                                                                    \
  inline NDArray operator symbol(const Operand& a, Scalar b) {         \
    return name(a.array(), b, a.site());                               \
  }                                                                    \
  inline NDArray operator symbol(Scalar a, const Operand& b) {         \
    return name(a, b.array(), b.site());                               \
  }
SLUICE_BINARY_OPERATOR(+, add)
SLUICE_BINARY_OPERATOR(-, subtract)
SLUICE_BINARY_OPERATOR(*, multiply)
SLUICE_BINARY_OPERATOR(/, divide)
SLUICE_BINARY_OPERATOR(%, mod)
SLUICE_BINARY_OPERATOR(==, equal)
SLUICE_BINARY_OPERATOR(!=, not_equal)
SLUICE_BINARY_OPERATOR(<, less)
SLUICE_BINARY_OPERATOR(<=, less_equal)
SLUICE_BINARY_OPERATOR(>, greater)
SLUICE_BINARY_OPERATOR(>=, greater_equal)
SLUICE_BINARY_OPERATOR(&, bitwise_and)
SLUICE_BINARY_OPERATOR(|, bitwise_or)
SLUICE_BINARY_OPERATOR(^, bitwise_xor)
#undef SLUICE_BINARY_OPERATOR

inline NDArray operator-(const Operand& x) {
  return negative(x.array(), x.site());
}
inline NDArray operator~(const Operand& x) {
  return bitwise_not(x.array(), x.site());
}
inline NDArray operator!(const Operand& x) {
  return logical_not(x.array(), x.site());
}

}  // namespace sluice
