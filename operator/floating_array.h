#pragma once

#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// A contiguous array of a floating type that is computed with in C: of float32 and half types in float, of float64 in
/// double. The switch is the same for every thread of a kernel, which is cheaper to build than a kernel per type.
template <class C>
struct FloatingArray {
  void* data = nullptr;
  DType dtype = DType::float32;

  FloatingArray() = default;
  explicit FloatingArray(const TensorView& view) : data(view.data), dtype(view.dtype) {}

  SLUICE_HD C operator[](std::int64_t i) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::float16)
        return static_cast<float>(static_cast<const Half*>(data)[i]);
      if (dtype == DType::bfloat16)
        return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
    }
    return static_cast<const C*>(data)[i];
  }
  SLUICE_HD void put(std::int64_t i, C value) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::float16) {
        static_cast<Half*>(data)[i] = Half(value);
        return;
      }
      if (dtype == DType::bfloat16) {
        static_cast<BFloat16*>(data)[i] = BFloat16(value);
        return;
      }
    }
    static_cast<C*>(data)[i] = value;
  }
};

/// Calls f.operator()<C>() with what a floating `dtype` is computed with: float or double.
template <class F>
decltype(auto) by_computing_type(DType dtype, F&& f) {
  return dtype == DType::float64 ? f.template operator()<double>() : f.template operator()<float>();
}

}  // namespace sluice::detail
