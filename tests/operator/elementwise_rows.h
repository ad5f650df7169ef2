#pragma once

// The rows of unary.def and binary.def as tables that tests walk: a new row is tested without an edit here.
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/rows.h>

namespace sluice::test {

/// Those that kernels are made for, and with the stored ones.
inline const std::vector<DType> k_all_dtypes = {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64};
inline const std::vector<DType> k_every_dtype = {
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};
inline const std::vector<DType> k_floating_dtypes = {float16, bfloat16, float32, float64};

/// A row's formula, for whole numbers where it has no other.
template <class Row, class... T>
double of_numbers(T... at) {
  using Number = std::conditional_t<is_of_bits(Row::kind), std::int64_t, double>;
  return static_cast<double>(Row::Value::of(static_cast<Number>(at)...));
}

struct UnaryCase {
  const char* name;
  RowKind kind;
  NDArray (*call)(const NDArray&, SourceLocation);
  double (*formula)(double);  // the row's own formula, for rows without a reference below
  double low, high;           // where tests draw x

  NDArray operator()(const NDArray& x) const { return call(x, SourceLocation::current()); }
  bool has_gradient() const { return is_differentiable(kind); }
};

inline const std::vector<UnaryCase>& all_unary_cases() {
  static const std::vector<UnaryCase> cases = {
#define SLUICE_VALUE(type, name, value) , static_cast<type>(value)
#define SLUICE_REAL(type, name, value) , static_cast<double>(value)
#define UNARY_WITH(row, parameters, kind, value, gradient, uses, low, high, doc)  \
  {#row,                                                                          \
   RowKind::kind,                                                                 \
   [](const NDArray& x, SourceLocation site) {                                    \
     return sluice::row(x SLUICE_EACH_PARAMETER(SLUICE_VALUE, parameters), site); \
   },                                                                             \
   [](double x) {                                                                 \
     using Row = math::UnaryRow<Unary::row>;                                      \
     return of_numbers<Row>(x SLUICE_EACH_PARAMETER(SLUICE_REAL, parameters));    \
   },                                                                             \
   low,                                                                           \
   high},
#include <sluice/operator/elementwise/unary.def>
#undef SLUICE_VALUE
#undef SLUICE_REAL
  };
  return cases;
}

struct BinaryCase {
  const char* name;
  RowKind kind;
  NDArray (*arrays)(const NDArray&, const NDArray&, SourceLocation);
  NDArray (*right)(const NDArray&, Scalar, SourceLocation);
  NDArray (*left)(Scalar, const NDArray&, SourceLocation);
  double (*formula)(double, double);
  double low, high;

  NDArray operator()(const NDArray& a, const NDArray& b) const { return arrays(a, b, SourceLocation::current()); }
  NDArray operator()(const NDArray& a, Scalar b) const { return right(a, b, SourceLocation::current()); }
  NDArray operator()(Scalar a, const NDArray& b) const { return left(a, b, SourceLocation::current()); }
  bool has_gradient() const { return is_differentiable(kind); }
};

inline const std::vector<BinaryCase>& all_binary_cases() {
  static const std::vector<BinaryCase> cases = {
#define BINARY(name, kind, value, gradient_a, uses_a, gradient_b, uses_b, low, high, doc) \
  {#name,                                                                                 \
   RowKind::kind,                                                                         \
   &sluice::name,                                                                         \
   &sluice::name,                                                                         \
   &sluice::name,                                                                         \
   [](double a, double b) { return of_numbers<math::BinaryRow<Binary::name>>(a, b); },    \
   low,                                                                                   \
   high},
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return cases;
}

/// The rows of bits, which take whole numbers alone, or the others.
template <class Case>
std::vector<Case> rows_of(const std::vector<Case>& all, bool of_bits) {
  std::vector<Case> chosen;
  for (const Case& row : all) {
    if (is_of_bits(row.kind) == of_bits)
      chosen.push_back(row);
  }
  return chosen;
}
inline const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases = rows_of(all_unary_cases(), false);
  return cases;
}
inline const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases = rows_of(all_binary_cases(), false);
  return cases;
}

using References = std::map<std::string, std::function<double(double)>>;

inline References activation_references() {
  return {
      {"relu", [](double v) { return v > 0 || std::isnan(v) ? v : 0; }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"softplus", [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); }},
      {"softsign", [](double v) { return v / (1 + std::fabs(v)); }},
      {"gelu", [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); }},
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"clip", [](double v) { return std::isnan(v) ? v : std::fmin(std::fmax(v, -1), 1); }},
      {"leaky_relu", [](double v) { return v < 0 ? v / 100 : v; }},
      {"elu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"celu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"hard_sigmoid", [](double v) { return std::isnan(v) ? v : std::fmin(std::fmax(v / 5 + 0.5, 0), 1); }},
      {"threshold", [](double v) { return v <= 0 ? 0 : v; }},
      {"gelu_tanh",
       [](double v) { return v / (1 + std::exp(-v * (1.59576912160573071 + 0.0713548162726002488 * v * v))); }},
      {"log_sigmoid",
       [](double v) { return std::fmin(v, 0) + (std::isnan(v) ? v : 0) - std::log1p(std::exp(-std::fabs(v))); }},
      {"mish", [](double v) { return v * std::tanh(std::fmax(v, 0) + std::log1p(std::exp(-std::fabs(v)))); }},
      {"selu", [](double v) { return 1.05070098735548049 * (v < 0 ? 1.67326324235437728 * std::expm1(v) : v); }},
      {"hard_swish", [](double v) { return std::isnan(v) ? v : v * (std::fmin(std::fmax(v + 3, 0), 6) / 6); }},
      {"relu6", [](double v) { return v < 0   ? 0
                                      : v > 6 ? 6
                                              : v; }},
      {"hard_tanh", [](double v) { return std::isnan(v) ? v : std::fmin(std::fmax(v, -1), 1); }},
      {"softshrink", [](double v) { return std::isnan(v) ? v : std::fmax(v - 0.5, 0) + std::fmin(v + 0.5, 0); }},
      {"hard_shrink", [](double v) { return std::fabs(v) <= 0.5 ? 0 : v; }},
      {"smooth_l1", [](double v) { return std::fabs(v) < 1 ? v * v / 2 : std::fabs(v) - 0.5; }},
  };
}

inline References function_references() {
  return {
      {"negative", [](double v) { return -v; }},
      {"abs", [](double v) { return std::fabs(v); }},
      {"sign", [](double v) { return std::isnan(v) ? v : (v > 0) - (v < 0); }},
      {"square", [](double v) { return v * v; }},
      {"floor", [](double v) { return std::floor(v); }},
      {"ceil", [](double v) { return std::ceil(v); }},
      {"round", [](double v) { return std::nearbyint(v); }},
      {"trunc", [](double v) { return std::trunc(v); }},
      {"exp", [](double v) { return std::exp(v); }},
      {"expm1", [](double v) { return std::expm1(v); }},
      {"log", [](double v) { return std::log(v); }},
      {"log1p", [](double v) { return std::log1p(v); }},
      {"log2", [](double v) { return std::log2(v); }},
      {"log10", [](double v) { return std::log10(v); }},
      {"sqrt", [](double v) { return std::sqrt(v); }},
      {"rsqrt", [](double v) { return 1 / std::sqrt(v); }},
      {"cbrt", [](double v) { return std::cbrt(v); }},
      {"reciprocal", [](double v) { return std::pow(v, -1); }},
      {"sin", [](double v) { return std::sin(v); }},
      {"cos", [](double v) { return std::cos(v); }},
      {"tan", [](double v) { return std::tan(v); }},
      {"arcsin", [](double v) { return std::asin(v); }},
      {"arccos", [](double v) { return std::acos(v); }},
      {"arctan", [](double v) { return std::atan(v); }},
      {"sinh", [](double v) { return std::sinh(v); }},
      {"cosh", [](double v) { return std::cosh(v); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"erf", [](double v) { return v == 0 ? v : 1 - std::erfc(v); }},
      {"erfc", [](double v) { return v < 1 ? 1 - std::erf(v) : std::erfc(v); }},
      {"arcsinh", [](double v) { return std::asinh(v); }},
      {"arccosh", [](double v) { return std::acosh(v); }},
      {"arctanh", [](double v) { return std::atanh(v); }},
      {"exp2", [](double v) { return std::exp2(v); }},
      {"rcbrt", [](double v) { return 1 / std::cbrt(v); }},
      {"degrees", [](double v) { return v / 3.14159265358979324 * 180; }},
      {"radians", [](double v) { return v / 180 * 3.14159265358979324; }},
      {"gamma", [](double v) { return std::tgamma(v); }},
      {"gammaln", [](double v) { return std::lgamma(v); }},
      {"isposinf", [](double v) { return v > 0 && std::isinf(v); }},
      {"isneginf", [](double v) { return v < 0 && std::isinf(v); }},
      {"signbit", [](double v) { return std::signbit(v); }},
      {"logical_not", [](double v) { return v == 0; }},
      {"isnan", [](double v) { return std::isnan(v); }},
      {"isinf", [](double v) { return std::isinf(v); }},
      {"isfinite", [](double v) { return std::isfinite(v); }},
  };
}

/// What a unary row should give (with the values of its parameters that unary.def says), by the C++ library or by
/// definition.
inline double unary_reference(const UnaryCase& row, double x) {
  static const References table = [] {
    References all = function_references();
    all.merge(activation_references());
    return all;
  }();
  const auto at = table.find(row.name);
  return at == table.end() ? row.formula(x) : at->second(x);
}

inline double binary_reference(const BinaryCase& row, double a, double b) {
  static const std::map<std::string, std::function<double(double, double)>> table = {
      {"add", [](double u, double v) { return u + v; }},
      {"subtract", [](double u, double v) { return u - v; }},
      {"multiply", [](double u, double v) { return u * v; }},
      {"divide", [](double u, double v) { return u / v; }},
      {"power", [](double u, double v) { return std::pow(u, v); }},
      {"maximum", [](double u, double v) { return std::isnan(u) || std::isnan(v) ? NAN : std::fmax(u, v); }},
      {"minimum", [](double u, double v) { return std::isnan(u) || std::isnan(v) ? NAN : std::fmin(u, v); }},
      {"mod", [](double u, double v) { return u - std::floor(u / v) * v; }},
      {"hypot", [](double u, double v) { return std::hypot(u, v); }},
      {"arctan2", [](double u, double v) { return std::atan2(u, v); }},
      {"logaddexp", [](double u, double v) { return std::log(std::exp(u) + std::exp(v)); }},
      {"fmod", [](double u, double v) { return std::fmod(u, v); }},
      {"fmax", [](double u, double v) { return std::fmax(u, v); }},
      {"fmin", [](double u, double v) { return std::fmin(u, v); }},
      {"copysign", [](double u, double v) { return std::copysign(u, v); }},
      {"heaviside", [](double u, double v) { return std::isnan(u) ? u
                                                    : u == 0      ? v
                                                                  : u > 0; }},
      {"prelu", [](double u, double v) { return u > 0 ? u : u * v; }},
      {"logaddexp2", [](double u, double v) { return std::log2(std::exp2(u) + std::exp2(v)); }},
      {"xlogy", [](double u, double v) { return u == 0 && !std::isnan(v) ? 0 : u * std::log(v); }},
      {"xlog1py", [](double u, double v) { return u == 0 && !std::isnan(v) ? 0 : u * std::log1p(v); }},
      {"equal", [](double u, double v) { return u == v; }},
      {"not_equal", [](double u, double v) { return u != v; }},
      {"less", [](double u, double v) { return u < v; }},
      {"less_equal", [](double u, double v) { return u <= v; }},
      {"greater", [](double u, double v) { return u > v; }},
      {"greater_equal", [](double u, double v) { return u >= v; }},
      {"logical_and", [](double u, double v) { return u != 0 && v != 0; }},
      {"logical_or", [](double u, double v) { return u != 0 || v != 0; }},
      {"logical_xor", [](double u, double v) { return (u != 0) != (v != 0); }},
  };
  const auto at = table.find(row.name);
  return at == table.end() ? row.formula(a, b) : at->second(a, b);
}

/// The type that a row gives for operands of type `dtype`.
inline DType result_type(RowKind kind, DType dtype) {
  if (gives_bool(kind))
    return bool_;
  if (kind == RowKind::real || kind == RowKind::special)
    return is_floating(dtype) ? dtype : float32;
  return dtype == bool_ ? int64 : dtype;
}

/// A value as an element of `dtype` holds it: unsigned ones wrap around.
inline double wrapped(DType dtype, double value) {
  const double period = std::ldexp(1, 8 * static_cast<int>(size_of(dtype)));
  return is_unsigned(dtype) ? value - period * std::floor(value / period) : value;
}

}  // namespace sluice::test
