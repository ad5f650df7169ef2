#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/simd/channel_rows.h>
#include <sluice/operator/simd/norm_rows.h>

// Rows that are normalised, on the CPU.
namespace sluice::detail {

inline constexpr std::int64_t k_norm_grain = 16 * 1024;  // elements worth a thread

/// Parameters of any floating type as numbers of type C; where there are none, `absent` for each.
template <class C>
class NormNumbers {
 public:
  NormNumbers(const NormParameter& from, std::int64_t count, C absent) {
    const DType own = std::is_same_v<C, double> ? DType::float64 : DType::float32;
    if (from.data != nullptr && from.dtype == own) {
      at_ = static_cast<const C*>(from.data);
      return;
    }
    made_.resize(static_cast<std::size_t>(count), absent);
    for (std::int64_t i = 0; from.data != nullptr && i < count; ++i)
      made_[static_cast<std::size_t>(i)] = load_parameter<C>(from.data, from.dtype, i);
    at_ = made_.data();
  }
  NormNumbers(const NormNumbers&) = delete;
  NormNumbers& operator=(const NormNumbers&) = delete;

  const C* data() const noexcept { return at_; }
  C operator[](std::int64_t i) const noexcept { return at_[i]; }

 private:
  const C* at_ = nullptr;
  std::vector<C> made_;
};

/// Vector loops for rows of neighbours; both null where the plain ones serve.
struct NormVectors {
  const simd::ChannelRows* channels = nullptr;
  const simd::NormRows* rows = nullptr;

  template <class T>
  static NormVectors of(const NormRows& rows) noexcept {
    if (std::is_same_v<T, double> || rows.at.inner != 1 || rows.at.n == 0 || simd::norm_rows() == nullptr)
      return {};
    return {simd::channel_rows(), simd::norm_rows()};
  }
};

/// Results that no cache keeps go past it, if their rows are whole lines.
template <class T>
bool norm_streams(const T* y, const NormRows& rows) noexcept {
  constexpr std::int64_t k_line = 64, k_large = std::int64_t{4} << 20;
  const std::int64_t bytes = rows.at.n * static_cast<std::int64_t>(sizeof(T));
  return std::is_same_v<T, float> && rows.span == 1 && bytes % k_line == 0 && rows.count() * bytes >= k_large &&
         reinterpret_cast<std::uintptr_t>(y) % k_line == 0;
}

/// A row of neighbours as floats; `room` holds as many.
template <class T>
const float* row_as_floats(const T* x, std::int64_t n, float* room) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    simd::convert(x, room, n);
    return room;
  }
}

/// All elements of one half type, of which a float32 norm takes or gives, from or to floats.
template <class From, class To>
void convert_elements(const From* from, To* to, std::int64_t size) {
  parallel_for(size, k_norm_grain, [&](std::int64_t begin, std::int64_t end) {
    simd::convert(from + begin, to + begin, end - begin);
  });
}
inline void widen_elements(const TensorView& halves, float* to) {
  halves.dtype == DType::float16 ? convert_elements(halves.as<Half>(), to, halves.size)
                                 : convert_elements(halves.as<BFloat16>(), to, halves.size);
}
inline void round_elements(const float* from, const TensorView& halves) {
  halves.dtype == DType::float16 ? convert_elements(from, halves.as<Half>(), halves.size)
                                 : convert_elements(from, halves.as<BFloat16>(), halves.size);
}

/// Where the elements of a row begin.
inline std::int64_t row_offset(const AxisLayout& at, std::int64_t row) noexcept {
  return row / at.inner * at.n * at.inner + row % at.inner;
}

}  // namespace sluice::detail
