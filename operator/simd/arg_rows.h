#pragma once

#include <cstdint>
#include <type_traits>

namespace sluice::simd {

/// Where a row of a column stands: a whole number as wide as T, so that vectors of both have as many lanes.
template <class T>
using RowNumber = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

/// What argmax and argmin, max and min do with neighbours, in the vectors of target(). T is float, double, int32 or
/// int64. A NaN is better than any number, the first of equals wins. Results are the same on every instruction set.
template <class T>
struct ArgRows {
  /// The best of n neighbours, n >= 1; a NaN if there is one.
  T (*best)(const T* x, std::int64_t n);
  /// Where the first of n neighbours stands that equals `value`, or is a NaN if that is one; n if none does.
  std::int64_t (*find)(const T* x, std::int64_t n, T value);
  /// Row number `row` of `width` columns: where it is better than `best`, it takes its place there and in `where`.
  void (*row)(const T* x, std::int64_t width, RowNumber<T> row, T* best, RowNumber<T>* where);
  /// The same without where.
  void (*keep)(const T* x, std::int64_t width, T* best);
};

/// Null if there are none: the plain loops serve.
template <class T>
const ArgRows<T>* arg_rows(bool largest) noexcept;

}  // namespace sluice::simd
