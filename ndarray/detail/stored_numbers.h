#pragma once

#include <bit>
#include <cstdint>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/dtype.h>

// Numbers of any type on their way from or to a stored type, on CPU and GPU.
namespace sluice::detail {

/// Whether uint64 meets a floating type, which int64 does not carry.
SLUICE_HD constexpr bool meets_floating(DType to, DType from) noexcept {
  const auto floating = [](DType t) { return t >= DType::float16 && t <= DType::float64; };
  return (to == DType::uint64 && floating(from)) || (from == DType::uint64 && floating(to));
}

/// A double for a second rounding, to float or fewer bits, that is right: what lies far below those becomes one bit.
SLUICE_HD inline double double_with_rest(std::uint64_t value) noexcept {
  constexpr std::uint64_t low = 0x7ff;  // of 64 bits a double holds 53
  if (value >> 53 != 0)
    value = (value & ~low) | ((value & low) != 0 ? low + 1 : 0);
  return static_cast<double>(value);
}

}  // namespace sluice::detail
