#pragma once

// What elementwise rows should give, by the C++ library or by definition. Few tests ask, and it takes long to compile.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "tests/operator/elementwise_rows.h"

namespace sluice::test {

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

}  // namespace sluice::test
