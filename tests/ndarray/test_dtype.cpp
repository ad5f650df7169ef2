// Element types: names, promotion, conversions bit by bit.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/convert.h>

#include "tests/support/catch.h"

using namespace sluice;
using detail::convert;
using test::contains;

namespace {

const std::vector<DType> k_all_types{
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};

/// The value of a 16-bit float from its definition.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int sign = bits >> 15;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    magnitude = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
  return sign != 0 ? -magnitude : magnitude;
}

/// The nearest 16-bit float by search: ties to the even pattern.
template <class T>
std::uint16_t nearest(double value, int exponent_bits, int fraction_bits) {
  const double magnitude = std::fabs(value);
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  std::uint16_t low = 0, high = infinity;  // patterns of positive numbers are in order
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(middle, exponent_bits, fraction_bits) <= magnitude ? low : high) = middle;
  }
  const double below = value_of(low, exponent_bits, fraction_bits);
  double above = value_of(high, exponent_bits, fraction_bits);
  if (high == infinity)  // where the next number would lie, were there one
    above = 2 * below - value_of(static_cast<std::uint16_t>(low - 1), exponent_bits, fraction_bits);
  const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && (low & 1) != 0);
  return static_cast<std::uint16_t>((up ? high : low) | (std::signbit(value) ? 0x8000 : 0));
}

template <class T>
void check_rounding(int exponent_bits, int fraction_bits) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    T element;
    element.bits = static_cast<std::uint16_t>(bits);
    const double value = value_of(element.bits, exponent_bits, fraction_bits);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(static_cast<float>(element)));
      REQUIRE(std::isnan(static_cast<float>(T(static_cast<float>(element)))));
      continue;
    }
    REQUIRE(static_cast<double>(static_cast<float>(element)) == value);
    REQUIRE(T(static_cast<float>(value)).bits == element.bits);
    if (std::isinf(value))
      continue;
    // Around the middle between this number and the next one: from float and, closer still, from double.
    T next;
    next.bits = static_cast<std::uint16_t>(bits + 1);
    double middle = (value + value_of(next.bits, exponent_bits, fraction_bits)) / 2;
    if (!std::isfinite(middle))
      middle = value + (value - value_of(static_cast<std::uint16_t>(bits - 1), exponent_bits, fraction_bits)) / 2;
    for (const double near : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, value * 2)}) {
      if (bits % 7 == 0)
        REQUIRE(convert<T>(near).bits == nearest<T>(near, exponent_bits, fraction_bits));
      const auto single = static_cast<float>(near);
      if (bits % 7 == 3)
        REQUIRE(convert<T>(single).bits == nearest<T>(single, exponent_bits, fraction_bits));
    }
  }
}

}  // namespace

TEST_CASE("Types have names, sizes and C++ types") {
  for (const DType type : k_all_types) {
    REQUIRE(parse_dtype(name_of(type)) == type);
    REQUIRE(by_any_dtype(type, []<class T>() { return sizeof(T); }) == size_of(type));
    REQUIRE(by_any_dtype(type, []<class T>() { return dtype_of<T>; }) == type);
  }
  REQUIRE_THROWS_AS(parse_dtype("float8"), DTypeError);
  REQUIRE(is_floating(bfloat16));
  REQUIRE_FALSE(is_floating(int64));
  REQUIRE(is_integer(uint8));
  REQUIRE_FALSE(is_integer(bool_));
}

TEST_CASE("Promotion is symmetric and keeps floating types as PyTorch does") {
  for (const DType a : k_all_types) {
    REQUIRE(promote(a, a) == a);
    REQUIRE(promote(bool_, a) == a);
    for (const DType b : k_all_types)
      REQUIRE(promote(a, b) == promote(b, a));
  }
  REQUIRE(promote(int64, float32) == float32);
  REQUIRE(promote(int64, float16) == float16);
  REQUIRE(promote(float16, bfloat16) == float32);
  REQUIRE(promote(float16, float32) == float32);
  REQUIRE(promote(bfloat16, float64) == float64);
  REQUIRE(promote(uint8, int32) == int32);
  REQUIRE(promote(int32, int64) == int64);
}

// Of NumPy 2.4's promote_types.
TEST_CASE("Integers are promoted as NumPy promotes them") {
  const std::vector<DType> types{uint8, int8, int16, uint16, int32, uint32, int64, uint64};
  const std::vector<std::vector<DType>> table{
      {uint8, int16, int16, uint16, int32, uint32, int64, uint64},
      {int16, int8, int16, int32, int32, int64, int64, float64},
      {int16, int16, int16, int32, int32, int64, int64, float64},
      {uint16, int32, int32, uint16, int32, uint32, int64, uint64},
      {int32, int32, int32, int32, int32, int64, int64, float64},
      {uint32, int64, int64, uint32, int64, uint32, int64, uint64},
      {int64, int64, int64, int64, int64, int64, int64, float64},
      {uint64, float64, float64, uint64, float64, uint64, float64, uint64},
  };
  for (std::size_t i = 0; i < types.size(); ++i) {
    for (std::size_t j = 0; j < types.size(); ++j) {
      CAPTURE(types[i], types[j]);
      REQUIRE(promote(types[i], types[j]) == table[i][j]);
    }
    REQUIRE(promote(types[i], float16) == float16);
    REQUIRE(is_unsigned(types[i]) == name_of(types[i]).starts_with("u"));
    REQUIRE(is_integer(types[i]));
    REQUIRE_FALSE(is_floating(types[i]));
  }
  REQUIRE_FALSE(is_unsigned(bool_));
  REQUIRE_FALSE(is_unsigned(float64));
}

TEST_CASE("Kernels are not run with types that are only stored") {
  const auto size = []<class T>() { return sizeof(T); };
  for (const DType type : k_all_types) {
    REQUIRE(is_computed(type) == (type < int16));
    if (is_computed(type))
      REQUIRE(by_dtype(type, size) == size_of(type));
    else
      REQUIRE_THROWS_AS(by_dtype(type, size), DTypeError);
  }
}

TEST_CASE("A number that is no type is told, whoever gives it") {
  const auto none = static_cast<DType>(99);
  const NDArray x = ones({2});
  float values[2] = {};
  CHECK(message(none) == "DType(99)");
  CHECK_THROWS_AS(empty({2}, {.dtype = none}), DTypeError);
  CHECK_THROWS_WITH(zeros({2}, {.dtype = none}), contains("DType(99)"));
  CHECK_THROWS_AS(arange(0, 2, 1, {.dtype = none}), DTypeError);
  CHECK_THROWS_WITH(x.astype(none), contains("astype: DType(99) is no element type"));
  CHECK_THROWS_AS(x.read_out(values, none, 2), DTypeError);
  CHECK_THROWS_AS(from_values(values, none, 2, {2}, {}), DTypeError);
  CHECK_THROWS_AS(from_values(values, float32, 2, {2}, {.dtype = none}), DTypeError);
}

TEST_CASE("Scalars are weak") {
  REQUIRE(Scalar(2.5).beside(float16) == float16);
  REQUIRE(Scalar(2.5).beside(int32) == float32);
  REQUIRE(Scalar(2).beside(uint8) == uint8);
  REQUIRE(Scalar(2).beside(bool_) == int64);
  REQUIRE(Scalar(true).beside(bool_) == bool_);
}

TEST_CASE("All 16-bit floats come back from float, and rounding is to nearest, ties to even") {
  check_rounding<Half>(5, 10);
  check_rounding<BFloat16>(8, 7);
}

TEST_CASE("Doubles round once on their way to 16 bits") {
  // 1 + 2^-11 lies between two halves; a double just above it rounds up, though as a float it is the tie.
  REQUIRE(convert<Half>(1.0 + 0x1p-11).bits == 0x3c00);
  REQUIRE(convert<Half>(1.0 + 0x1p-11 + 0x1p-40).bits == 0x3c01);
  REQUIRE(convert<Half>(-1.0 - 0x1p-11 - 0x1p-40).bits == 0xbc01);
  REQUIRE(convert<Half>(65519.999).bits == 0x7bff);
  REQUIRE(convert<Half>(65520.0).bits == 0x7c00);
  REQUIRE(convert<Half>(1e300).bits == 0x7c00);
  REQUIRE(convert<Half>(-1e-300).bits == 0x8000);
}

TEST_CASE("Conversions follow C++ where it defines them") {
  REQUIRE(convert<bool>(0.5f));
  REQUIRE(convert<bool>(std::numeric_limits<double>::quiet_NaN()));
  REQUIRE_FALSE(convert<bool>(Half(-0.0f)));
  REQUIRE(convert<std::int32_t>(-2.9f) == -2);
  REQUIRE(convert<std::uint8_t>(300.7) == 44);
  REQUIRE(convert<std::int8_t>(std::int64_t{257}) == 1);
  REQUIRE(convert<float>(true) == 1.0f);
  REQUIRE(convert<double>(BFloat16(1.5f)) == 1.5);
  REQUIRE(static_cast<float>(convert<Half>(std::int64_t{2049})) == 2048.0f);
}
