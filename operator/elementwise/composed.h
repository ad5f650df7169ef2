#pragma once

#include <optional>

#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/scalar.h>

// Functions of elements that are made of the rows of unary.def and binary.def: operators by name too, recorded, traced
// and fused as their parts; and those that take numbers to pieces. Errors are those of the parts. None of them blocks.
namespace sluice {

/// x with `nan` in place of NaN, `posinf` and `neginf` of infinities; without these the largest and the least number of
/// x's type (numpy.nan_to_num). Integers and bool are given back as they are. The gradient is 0 where x is not finite.
SLUICE_API NDArray nan_to_num(
    const NDArray& x,
    double nan = 0,
    std::optional<double> posinf = {},
    std::optional<double> neginf = {},
    SourceLocation site = SourceLocation::current());

/// a + weight * (b - a), from the nearer end, so that weights 0 and 1 give a and b; all broadcast. Integers give
/// float32 beside real weights (torch.lerp).
SLUICE_API NDArray
lerp(const NDArray& a, const NDArray& b, const NDArray& weight, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
lerp(const NDArray& a, const NDArray& b, double weight, SourceLocation site = SourceLocation::current());

/// x + value * a * b; all broadcast (torch.addcmul).
SLUICE_API NDArray addcmul(
    const NDArray& x,
    const NDArray& a,
    const NDArray& b,
    Scalar value = 1,
    SourceLocation site = SourceLocation::current());

/// a^b of real numbers: power() of integers and bool that have become float32 (numpy.float_power gives float64).
SLUICE_API NDArray float_power(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray float_power(const NDArray& a, Scalar b, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray float_power(Scalar a, const NDArray& b, SourceLocation site = SourceLocation::current());

/// How isclose() measures: |a - b| <= atol + rtol * |b|.
struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
/// True where a and b are close, or the same infinity; NaN is close to NaN with equal_nan (numpy.isclose).
SLUICE_API NDArray isclose(
    const NDArray& a,
    const NDArray& b,
    const CloseOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// The number next to a on the way to b, by their bits (numpy.nextafter, torch.nextafter); b where both are alike. Both
/// broadcast and become one floating type. Not differentiable.
SLUICE_API NDArray nextafter(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());

/// What frexp() gives: exponents are int32.
struct MantissaAndExponent {
  NDArray mantissa, exponent;
};
/// x = mantissa * 2^exponent, the mantissa at least 0.5 and below 1 beside its sign (numpy.frexp, torch.frexp); 0, NaN
/// and infinities are their mantissa, with an exponent of 0. Integers and bool become float32. The gradient goes
/// through the mantissa.
SLUICE_API MantissaAndExponent frexp(const NDArray& x, SourceLocation site = SourceLocation::current());

/// What modf() gives.
struct FractionAndWhole {
  NDArray fraction, whole;
};
/// x = fraction + whole, both with the sign of x (numpy.modf; torch.frac and trunc): of an infinity the fraction is 0.
/// Integers and bool become float32.
SLUICE_API FractionAndWhole modf(const NDArray& x, SourceLocation site = SourceLocation::current());

/// What divmod() gives.
struct QuotientAndRest {
  NDArray quotient, rest;
};
/// floor_divide() and mod() of both (numpy.divmod).
SLUICE_API QuotientAndRest divmod(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
SLUICE_API QuotientAndRest divmod(const NDArray& a, Scalar b, SourceLocation site = SourceLocation::current());
SLUICE_API QuotientAndRest divmod(Scalar a, const NDArray& b, SourceLocation site = SourceLocation::current());

/// A copy of x (numpy.positive, torch.positive); of bool int64, as of all arithmetic.
SLUICE_API NDArray positive(const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice
