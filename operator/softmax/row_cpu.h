#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>

#include <sluice/operator/simd/softmax_rows.h>

// What the rows of softmax are made of on the CPU, in forms that the compiler turns into vectors: library calls and
// running sums would stay scalar.
namespace sluice::detail {

/// exp(x) for x <= 88, to two units in the last place; 0 below -87.3, where results would be denormal. NaN stays.
/// Cody and Waite's reduction by ln 2 in two parts, the polynomial of Moshier's Cephes library (expf).
inline float vector_exp(float x) noexcept {
  constexpr float lowest = -87.33654f, to_integer = 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the integer
  // Masked as bits: choices between floats become branches here, for fear of floating-point traps.
  const std::uint32_t kept = 0u - static_cast<std::uint32_t>(!(x < lowest));
  const float bounded = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & kept);
  const float shifted = bounded * 1.44269504f + to_integer;
  const float n = shifted - to_integer;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r + 1.0f;
  return y * std::bit_cast<float>(((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23) & kept);
}
inline double vector_exp(double x) noexcept {
  return std::exp(x);
}

inline constexpr int k_row_lanes = 16;

/// Largest of n elements; NaN is passed over.
template <class C, class T>
C largest_of(const T* x, std::int64_t n) noexcept {
  C lane[k_row_lanes];
  for (C& value : lane)
    value = -std::numeric_limits<C>::infinity();
  std::int64_t i = 0;
  for (; i + k_row_lanes <= n; i += k_row_lanes) {
    for (int j = 0; j < k_row_lanes; ++j) {
      const C value = static_cast<C>(x[i + j]);
      lane[j] = value > lane[j] ? value : lane[j];
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    const C value = static_cast<C>(x[i]);
    lane[j] = value > lane[j] ? value : lane[j];
  }
  for (int j = 1; j < k_row_lanes; ++j)
    lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
  return lane[0];
}

/// Sum of n numbers, in double.
template <class C>
double sum_of(const C* x, std::int64_t n) noexcept {
  double lane[k_row_lanes] = {};
  std::int64_t i = 0;
  for (; i + k_row_lanes <= n; i += k_row_lanes) {
    for (int j = 0; j < k_row_lanes; ++j)
      lane[j] += x[i + j];
  }
  for (int j = 0; i < n; ++i, ++j)
    lane[j] += x[i];
  double total = 0;
  for (double value : lane)
    total += value;
  return total;
}

/// n floats, of any value, on a line of the cache; few of them cost no allocation. Throws std::bad_alloc.
class RowBuffer {
 public:
  explicit RowBuffer(std::int64_t n)
      : data_(n <= k_few ? few_ : static_cast<float*>(::operator new(sizeof(float) * n, k_line))) {}
  RowBuffer(const RowBuffer&) = delete;
  RowBuffer& operator=(const RowBuffer&) = delete;
  ~RowBuffer() {
    if (data_ != few_)
      ::operator delete(data_, k_line);
  }
  float* get() const noexcept { return data_; }

 private:
  static constexpr std::int64_t k_few = 256;
  static constexpr std::align_val_t k_line{64};
  alignas(64) float few_[k_few];
  float* data_;
};

/// Row `row` of x, if there is one before `end` and the caches have room for it beside the one before.
template <class T>
simd::Ahead row_ahead(const T* x, std::int64_t row, std::int64_t end, std::int64_t n) noexcept {
  constexpr std::int64_t k_room = std::int64_t{256} << 10;
  const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(T));
  return row < end && bytes <= k_room ? simd::Ahead{x + row * n, bytes} : simd::Ahead{};
}

/// Rows of half types from so many elements on are worth a conversion of their own.
inline constexpr std::int64_t k_worth_converting = 16;

/// How many of `rows` rows are converted at once: a few thousand elements, which the nearest cache holds.
inline std::int64_t rows_converted(std::int64_t rows, std::int64_t n) noexcept {
  return std::clamp<std::int64_t>(2048 / n, 1, std::max<std::int64_t>(1, rows));
}

}  // namespace sluice::detail
