#pragma once

#include <cstdint>
#include <type_traits>

#include <sluice/ndarray/half.h>

namespace sluice::simd {

/// What becomes of terms that are neighbours: sums of them, of their squares, of their magnitudes, of those that are no
/// NaN, or their product.
enum class RowSum { none, terms, squares, magnitudes, numbers, product };

/// What terms of type T are added up in: double for double, else float.
template <class T>
using RowTotal = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Of n neighbours, one result a `block` of them (the last may be shorter), each of 64 or 32 parts whatever the width
/// of a vector, in the vectors of target(). T is float, double or a half type.
template <class T>
using RowSums = void (*)(const T* x, std::int64_t n, std::int64_t block, RowTotal<T>* sums);

/// Null if there are no vectors, or for none: the plain loops serve.
template <class T>
RowSums<T> row_sums(RowSum kind) noexcept;

/// to += x, of n neighbours.
template <class T>
using ColumnSums = void (*)(const T* x, std::int64_t n, RowTotal<T>* to);

/// Null if there are no vectors.
template <class T>
ColumnSums<T> column_sums() noexcept;

}  // namespace sluice::simd
