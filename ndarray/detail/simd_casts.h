#pragma once

#include <cstdint>

#include <sluice/ndarray/half.h>

namespace sluice::simd {

/// n neighbours converted, as half.h says, in the vectors of target(); plain loops where there are none.
void convert(const Half* from, float* to, std::int64_t n) noexcept;
void convert(const BFloat16* from, float* to, std::int64_t n) noexcept;
void convert(const float* from, Half* to, std::int64_t n) noexcept;
void convert(const float* from, BFloat16* to, std::int64_t n) noexcept;

}  // namespace sluice::simd
