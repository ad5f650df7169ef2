#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include <sluice/engine/export.h>
#include <sluice/ndarray/half.h>

namespace sluice {

// The one table of element types: enumerator, C++ type, name as NumPy spells it. A new type is a row here.
#define SLUICE_DTYPES(ROW)            \
  ROW(bool_, bool, "bool")            \
  ROW(uint8, std::uint8_t, "uint8")   \
  ROW(int8, std::int8_t, "int8")      \
  ROW(int32, std::int32_t, "int32")   \
  ROW(int64, std::int64_t, "int64")   \
  ROW(float16, Half, "float16")       \
  ROW(bfloat16, BFloat16, "bfloat16") \
  ROW(float32, float, "float32")      \
  ROW(float64, double, "float64")

enum class DType : std::uint8_t {
#define SLUICE_ROW(name, type, text) name,
  SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
};

#define SLUICE_ROW(name, type, text) inline constexpr DType name = DType::name;
SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW

/// C++ type -> DType. Only the types of the table have one.
template <class T>
struct DTypeOf;
#define SLUICE_ROW(name, type, text)            \
  template <>                                   \
  struct DTypeOf<type> {                        \
    static constexpr DType value = DType::name; \
  };
SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

namespace detail {
inline constexpr std::uint8_t k_element_bytes[] = {
#define SLUICE_ROW(name, type, text) sizeof(type),
    SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
};
}  // namespace detail

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  return detail::k_element_bytes[static_cast<std::size_t>(dtype)];
}
/// "float32".
SLUICE_API std::string_view name_of(DType dtype) noexcept;
/// The type of that name. Throws DTypeError.
SLUICE_API DType parse_dtype(std::string_view name);
SLUICE_API std::ostream& operator<<(std::ostream& out, DType dtype);

constexpr bool is_floating(DType t) noexcept {
  return t >= DType::float16 && t <= DType::float64;
}
constexpr bool is_integer(DType t) noexcept {
  return t >= DType::uint8 && t <= DType::int64;
}

/// The type of an operation between arrays of types `a` and `b`: the smallest that holds both kinds. An integer with
/// a floating type gives that floating type, as in PyTorch and unlike NumPy; float16 with bfloat16 gives float32.
SLUICE_API DType promote(DType a, DType b) noexcept;

/// Calls `f.operator()<T>()` with the C++ type T of `dtype`, and returns what it returns.
template <class F>
decltype(auto) by_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define SLUICE_ROW(name, type, text) \
  case DType::name:                  \
    return f.template operator()<type>();
    SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
  }
  __builtin_unreachable();
}

}  // namespace sluice
