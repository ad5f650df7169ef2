#pragma once

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// float16 and bfloat16: types that are computed with in float32.
constexpr bool is_half(DType dtype) noexcept {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

}  // namespace sluice::detail
