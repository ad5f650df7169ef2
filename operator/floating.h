#pragma once

#include <type_traits>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// What a floating type computes in: float for float16, bfloat16 and float32, double for float64.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls f.operator()<T>() with the C++ type of a floating `dtype`; shape rules have refused the others.
template <class F>
decltype(auto) by_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f.template operator()<Half>();
    case DType::bfloat16:
      return f.template operator()<BFloat16>();
    case DType::float64:
      return f.template operator()<double>();
    default:
      return f.template operator()<float>();
  }
}

}  // namespace sluice::detail
