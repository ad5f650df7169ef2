#pragma once

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// float16 and bfloat16: types that are computed with in float32.
constexpr bool is_half(DType dtype) noexcept {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

/// The type that sums and what must be as exact are kept in beside `dtype`: float64 beside it, float32 beside others.
constexpr DType wide_type(DType dtype) noexcept {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace sluice::detail
