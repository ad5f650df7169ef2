#pragma once

// The rows of unary.def and binary.def as C++: an enumerator and a function object each.
#include <cstddef>
#include <cstdint>

#include <sluice/operator/elementwise/each_parameter.h>
#include <sluice/operator/elementwise/special.h>
#include <sluice/operator/elementwise/whole.h>

namespace sluice {

enum class Unary : std::uint8_t {
#define UNARY(name, ...) name,
#include <sluice/operator/elementwise/unary.def>
};

enum class Binary : std::uint8_t {
#define BINARY(name, ...) name,
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
};

#define UNARY(...) +1
inline constexpr std::size_t k_unary_rows = 0
#include <sluice/operator/elementwise/unary.def>
    ;
#define BINARY(...) +1
inline constexpr std::size_t k_binary_rows = 0
#include <sluice/operator/elementwise/binary.def>
    ;
#undef BINARY

/// Which types a row takes and gives; see the heads of the .def files.
enum class RowKind : std::uint8_t { arithmetic, real, special, test, comparison, logical, bitwise, whole };

/// What a gradient formula reads.
using Uses = unsigned;
inline constexpr Uses nothing_ = 0, x_ = 1, y_ = 4, a_ = 1, b_ = 2;

constexpr bool gives_bool(RowKind kind) noexcept {
  return kind == RowKind::test || kind == RowKind::comparison || kind == RowKind::logical;
}
/// Of whole numbers alone.
constexpr bool is_of_bits(RowKind kind) noexcept {
  return kind == RowKind::bitwise || kind == RowKind::whole;
}
constexpr bool is_differentiable(RowKind kind) noexcept {
  return !gives_bool(kind) && !is_of_bits(kind);
}

}  // namespace sluice

// The formulas stand in sluice::math, where unqualified names mean functions of numbers; array functions are found by
// their arguments.
namespace sluice::math {

template <Unary row>
struct UnaryRow;
template <Binary row>
struct BinaryRow;

#define SLUICE_AS_ARGUMENT(type, name, value) , [[maybe_unused]] K name
#define SLUICE_COUNTED(type, name, value) +1
#define UNARY_WITH(row, parameter_list, row_kind, formula, derivative, row_uses, ...)                                  \
  template <>                                                                                                          \
  struct UnaryRow<Unary::row> {                                                                                        \
    static constexpr const char* name = #row;                                                                          \
    static constexpr const char* backward_name = #row "_backward";                                                     \
    static constexpr RowKind kind = RowKind::row_kind;                                                                 \
    static constexpr Uses uses = row_uses;                                                                             \
    static constexpr int parameters = 0 SLUICE_EACH_PARAMETER(SLUICE_COUNTED, parameter_list);                         \
    struct Value {                                                                                                     \
      template <class T, class K = T>                                                                                  \
      SLUICE_HD static auto of(T x SLUICE_EACH_PARAMETER(SLUICE_AS_ARGUMENT, parameter_list)) {                        \
        return formula;                                                                                                \
      }                                                                                                                \
    };                                                                                                                 \
    struct Gradient {                                                                                                  \
      template <class T, class K = typename ConstantOf<T>::type>                                                       \
      SLUICE_HD static auto                                                                                            \
      of(T dy, [[maybe_unused]] T x, [[maybe_unused]] T y SLUICE_EACH_PARAMETER(SLUICE_AS_ARGUMENT, parameter_list)) { \
        return derivative;                                                                                             \
      }                                                                                                                \
    };                                                                                                                 \
  };
#include <sluice/operator/elementwise/unary.def>
#undef SLUICE_AS_ARGUMENT
#undef SLUICE_COUNTED

#define SLUICE_GRADIENT(title, derivative)                                                             \
  struct title {                                                                                       \
    template <class T, class K = typename ConstantOf<T>::type>                                         \
    SLUICE_HD static auto of(T dy, [[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T y) { \
      return derivative;                                                                               \
    }                                                                                                  \
  };
#define BINARY(row, row_kind, formula, derivative_a, row_uses_a, derivative_b, row_uses_b, ...) \
  template <>                                                                                   \
  struct BinaryRow<Binary::row> {                                                               \
    static constexpr const char* name = #row;                                                   \
    static constexpr const char* backward_a_name = #row "_backward_a";                          \
    static constexpr const char* backward_b_name = #row "_backward_b";                          \
    static constexpr RowKind kind = RowKind::row_kind;                                          \
    static constexpr Uses uses_a = row_uses_a;                                                  \
    static constexpr Uses uses_b = row_uses_b;                                                  \
    struct Value {                                                                              \
      template <class T, class K = T>                                                           \
      SLUICE_HD static auto of(T a, T b) {                                                      \
        return formula;                                                                         \
      }                                                                                         \
    };                                                                                          \
    SLUICE_GRADIENT(GradientA, derivative_a)                                                    \
    SLUICE_GRADIENT(GradientB, derivative_b)                                                    \
  };
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
#undef SLUICE_GRADIENT

}  // namespace sluice::math
