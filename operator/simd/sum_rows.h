#pragma once

#include <cstdint>

namespace sluice::simd {

/// What becomes of terms that are neighbours: sums of them, of their squares, of their magnitudes, of those that are no
/// NaN, or their product.
enum class RowSum { none, terms, squares, magnitudes, numbers, product };

/// Of n neighbouring floats or doubles, one result a `block` of them (the last may be shorter), each of 64 or 32 parts
/// whatever the width of a vector, in the vectors of target().
template <class T>
using RowSums = void (*)(const T* x, std::int64_t n, std::int64_t block, T* sums);

/// Null if there are no vectors, or for none: the plain loops serve.
template <class T>
RowSums<T> row_sums(RowSum kind) noexcept;

}  // namespace sluice::simd
