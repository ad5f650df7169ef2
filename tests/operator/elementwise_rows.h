#pragma once

// The rows of unary.def and binary.def as tables that tests walk: a new row is tested without an edit here.
#include <cmath>
#include <cstdint>
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
  double (*formula)(double);  // the row's own formula, for rows without a reference (elementwise_references.h)
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
