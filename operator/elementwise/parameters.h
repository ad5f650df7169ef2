#pragma once

// The parameters of rows of unary.def as C++: the lists ((type, name, value), ...), read by a macro for each of them.
#include <array>

#include <sluice/ndarray/scalar.h>
#include <sluice/operator/elementwise/rows.h>

namespace sluice {

/// The parameters of a row as the attributes of its calls, with the row's values to begin with. `numbers()`: in order.
template <Unary row>
struct UnaryParameters {
  template <class V>
  void visit(V&&) {}
  std::array<Scalar, 0> numbers() const { return {}; }
};

#define SLUICE_AS_FIELD(type, name, value) type name = value;
#define SLUICE_VISITED(type, name, value) v.field(#name, name);
#define SLUICE_AS_NUMBER(type, name, value) Scalar(name),
#define UNARY(...)
#define UNARY_WITH(row, list, ...)                                               \
  template <>                                                                    \
  struct UnaryParameters<Unary::row> {                                           \
    SLUICE_EACH_PARAMETER(SLUICE_AS_FIELD, list);                                \
    template <class V>                                                           \
    void visit(V&& v) {                                                          \
      SLUICE_EACH_PARAMETER(SLUICE_VISITED, list);                               \
    }                                                                            \
    std::array<Scalar, math::UnaryRow<Unary::row>::parameters> numbers() const { \
      return {SLUICE_EACH_PARAMETER(SLUICE_AS_NUMBER, list)};                    \
    }                                                                            \
  };
#include <sluice/operator/elementwise/unary.def>
#undef SLUICE_AS_FIELD
#undef SLUICE_VISITED
#undef SLUICE_AS_NUMBER

/// Throws ValueError for parameters that a row makes no sense of.
template <Unary row>
void check_parameters(const UnaryParameters<row>&) {}
template <>
inline void check_parameters<Unary::clip>(const UnaryParameters<Unary::clip>& given) {
  require<ValueError>(given.low.as_double() <= given.high.as_double(), [&] {
    return message("clip: low ", given.low.as_double(), " is not below high ", given.high.as_double());
  });
}

template <>
inline void check_parameters<Unary::hard_tanh>(const UnaryParameters<Unary::hard_tanh>& given) {
  require<ValueError>(given.low <= given.high, [&] {
    return message("hard_tanh: low ", given.low, " is not below high ", given.high);
  });
}
template <>
inline void check_parameters<Unary::softshrink>(const UnaryParameters<Unary::softshrink>& given) {
  require<ValueError>(given.lambd >= 0, [&] { return message("softshrink: lambd ", given.lambd, " is negative"); });
}
template <>
inline void check_parameters<Unary::polygamma>(const UnaryParameters<Unary::polygamma>& given) {
  require<ValueError>(
      given.n >= 0 && given.n <= 160, [&] { return message("polygamma: n is ", given.n, ", not within 0 and 160"); });
}

}  // namespace sluice
