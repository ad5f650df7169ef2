#include <array>
#include <ostream>
#include <string>

#include <sluice/engine/error.h>
#include <sluice/ndarray/dtype.h>

namespace sluice {
namespace {

constexpr std::array<std::string_view, k_dtypes> k_names{
#define SLUICE_ROW(name, type, text) text,
    SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
};

}  // namespace

std::string_view name_of(DType dtype) noexcept {
  if (static_cast<int>(dtype) >= k_dtypes)
    return "no type";
  return k_names[static_cast<std::size_t>(dtype)];
}

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < k_names.size(); ++i) {
    if (k_names[i] == name)
      return static_cast<DType>(i);
  }
  std::string known;
  for (const std::string_view one : k_names)
    known += (known.empty() ? "" : ", ") + std::string(one);
  throw DTypeError(message("parse_dtype: \"", name, "\" is none of ", known));
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  if (static_cast<int>(dtype) >= k_dtypes)
    return out << "DType(" << static_cast<int>(dtype) << ')';
  return out << name_of(dtype);
}

void detail::refuse_unknown(const char* op, DType dtype) {
  throw DTypeError(message(op, ": ", dtype, " is no element type"));
}

void detail::refuse_stored(DType dtype) {
  throw DTypeError(message("there is no kernel for elements of type ", dtype, ": convert them with astype() first"));
}

DType promote(DType a, DType b) noexcept {
  if (a == b)
    return a;
  if (is_floating(a) != is_floating(b))
    return is_floating(a) ? a : b;
  if (is_floating(a)) {
    const DType wider = a < b ? b : a;  // the table lists them by width
    return wider == DType::bfloat16 ? DType::float32 : wider;
  }
  if (a == DType::bool_)
    return b;
  if (b == DType::bool_)
    return a;
  if (is_unsigned(a) == is_unsigned(b))
    return size_of(a) < size_of(b) ? b : a;
  const DType natural = is_unsigned(a) ? a : b, whole = is_unsigned(a) ? b : a;
  if (size_of(whole) > size_of(natural))
    return whole;
  switch (natural) {  // the signed type of twice the width
    case DType::uint8:
      return DType::int16;
    case DType::uint16:
      return DType::int32;
    case DType::uint32:
      return DType::int64;
    default:
      return DType::float64;
  }
}

}  // namespace sluice
