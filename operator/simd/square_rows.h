#pragma once

#include <cstdint>

namespace sluice::simd {

/// The sums of the squares of n neighbouring floats or doubles, one a `block` of them (the last may be shorter), each
/// of 64 or 32 parts whatever the width of a vector, in the vectors of target().
template <class T>
using SumsOfSquares = void (*)(const T* x, std::int64_t n, std::int64_t block, T* sums);

/// Null if there are no vectors: the plain loops serve.
template <class T>
SumsOfSquares<T> sums_of_squares() noexcept;

}  // namespace sluice::simd
