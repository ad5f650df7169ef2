#pragma once

#include <sluice/engine/error.h>
#include <sluice/operator/operator.h>

// What inference asks of inputs, for more than one family.
namespace sluice::detail {

/// Throws DTypeError naming `op` unless the input is of a floating type.
inline void check_floating(const char* op, const ArraySpec& given) {
  require<DTypeError>(
      is_floating(given.dtype), [&] { return message(op, ": no kernel for ", given.dtype, " on ", given.device); });
}

/// Throws ShapeError, or else DTypeError, naming `op` and the input, unless it is of that shape and type.
inline void check_like(const char* op, const char* name, const ArraySpec& given, const Shape& shape, DType dtype) {
  require<ShapeError>(
      given.shape == shape, [&] { return message(op, ": ", name, " is ", given.shape, ", not ", shape); });
  require<DTypeError>(
      given.dtype == dtype, [&] { return message(op, ": ", name, " is ", given.dtype, ", not ", dtype); });
}

}  // namespace sluice::detail
