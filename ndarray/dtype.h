#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include <sluice/engine/export.h>
#include <sluice/ndarray/half.h>

namespace sluice {

// The one table of element types: enumerator, C++ type, name as NumPy spells it. A new type is a row here. Kernels are
// made for the first ones, floating types by width; elements of the others are stored and moved as they are, operators
// reckon with them in int64 (operator/stored_types.h).
#define SLUICE_COMPUTED_DTYPES(ROW)   \
  ROW(bool_, bool, "bool")            \
  ROW(uint8, std::uint8_t, "uint8")   \
  ROW(int8, std::int8_t, "int8")      \
  ROW(int32, std::int32_t, "int32")   \
  ROW(int64, std::int64_t, "int64")   \
  ROW(float16, Half, "float16")       \
  ROW(bfloat16, BFloat16, "bfloat16") \
  ROW(float32, float, "float32")      \
  ROW(float64, double, "float64")
#define SLUICE_STORED_DTYPES(ROW)      \
  ROW(int16, std::int16_t, "int16")    \
  ROW(uint16, std::uint16_t, "uint16") \
  ROW(uint32, std::uint32_t, "uint32") \
  ROW(uint64, std::uint64_t, "uint64")
#define SLUICE_DTYPES(ROW)    \
  SLUICE_COMPUTED_DTYPES(ROW) \
  SLUICE_STORED_DTYPES(ROW)

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
/// Throws DTypeError.
[[noreturn]] SLUICE_API void refuse_stored(DType dtype);
/// The same, of a number that is none of the table, which a program made by a cast.
[[noreturn]] SLUICE_API void refuse_unknown(const char* op, DType dtype);
}  // namespace detail

/// How many types there are: DType(0) to DType(k_dtypes - 1).
inline constexpr int k_dtypes = sizeof(detail::k_element_bytes);

namespace detail {
/// Throws DTypeError naming `op` unless the table has the type.
inline void check_known(const char* op, DType dtype) {
  if (static_cast<int>(dtype) >= k_dtypes) [[unlikely]]
    refuse_unknown(op, dtype);
}
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
/// Whether kernels are made for the type; the others are stored types.
constexpr bool is_computed(DType t) noexcept {
  return t <= DType::float64;
}
constexpr bool is_integer(DType t) noexcept {
  return (t >= DType::uint8 && t <= DType::int64) || !is_computed(t);
}
constexpr bool is_unsigned(DType t) noexcept {
  return t == DType::uint8 || t >= DType::uint16;
}

/// The type of an operation between arrays of types `a` and `b`: the smallest that holds both kinds. An integer with
/// a floating type gives that floating type, as in PyTorch and unlike NumPy; float16 with bfloat16 gives float32, and
/// uint64 with a signed type float64, as in NumPy, for no integer holds both.
SLUICE_API DType promote(DType a, DType b) noexcept;

/// Calls `f.operator()<T>()` with the C++ type T of `dtype`, and returns what it returns. For kernels: throws
/// DTypeError for a stored type.
template <class F>
decltype(auto) by_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define SLUICE_ROW(name, type, text) \
  case DType::name:                  \
    return f.template operator()<type>();
    SLUICE_COMPUTED_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
    default:
      detail::refuse_stored(dtype);
  }
}

/// The same with the types of the whole table. Throws DTypeError for none of it.
template <class F>
decltype(auto) by_any_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define SLUICE_ROW(name, type, text) \
  case DType::name:                  \
    return f.template operator()<type>();
    SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
  }
  detail::refuse_unknown("by_any_dtype", dtype);
}

}  // namespace sluice
