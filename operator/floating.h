#pragma once

#include <type_traits>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// What arithmetic on elements of type T happens in: float for float16 and bfloat16, T itself for others.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

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
