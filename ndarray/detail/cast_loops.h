#pragma once

#include <algorithm>
#include <cstring>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/simd_casts.h>

namespace sluice::detail {

/// Elements that a thread takes at least.
inline constexpr std::int64_t k_copy_grain = 32768;

/// Conversions from a half type, and to one, but from and to float.
template <class To, class From>
inline constexpr bool through_float = !std::same_as<To, From> && !std::same_as<To, float> &&
                                      !std::same_as<From, float> && (is_small_float<From> || is_small_float<To>);

// Neighbours by way of floats that stay in the nearest cache. Those that become halves are exact or odd: see convert().
template <class To, class From>
void cast_through_float(To* to, const From* from, std::int64_t count) {
  constexpr std::int64_t k_block = 512;
  float block[k_block];
  for (std::int64_t i = 0; i < count; i += k_block) {
    const std::int64_t n = std::min(k_block, count - i);
    if constexpr (is_small_float<From>) {
      simd::convert(from + i, block, n);
    } else {
      for (std::int64_t j = 0; j < n; ++j) {
        if constexpr (sizeof(From) >= sizeof(float)) {
          block[j] = round_to_odd(from[i + j]);
        } else {
          block[j] = static_cast<float>(from[i + j]);
        }
      }
    }
    if constexpr (is_small_float<To>) {
      simd::convert(block, to + i, n);
    } else {
      for (std::int64_t j = 0; j < n; ++j)
        to[i + j] = convert<To>(block[j]);
    }
  }
}

template <class To, class From>
void cast_run(To* to, std::int64_t to_step, const From* from, std::int64_t from_step, std::int64_t count) {
  if (to_step == 1 && from_step == 1) {
    if constexpr (std::same_as<To, From>) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
    } else if constexpr (
        (std::same_as<To, float> && is_small_float<From>) || (std::same_as<From, float> && is_small_float<To>)) {
      simd::convert(from, to, count);
    } else if constexpr (through_float<To, From>) {
      cast_through_float(to, from, count);
    } else {
      for (std::int64_t i = 0; i < count; ++i)
        to[i] = convert<To>(from[i]);
    }
  } else if (to_step == 1 && from_step == 0) {
    const To value = convert<To>(from[0]);
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = value;
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      to[i * to_step] = convert<To>(from[i * from_step]);
  }
}

template <class To, class From>
void cast_plan(const CopyPlan& plan, void* to, const void* from) {
  To* const target = static_cast<To*>(to);
  const From* const source = static_cast<const From*>(from);
  for_each_run(plan, k_copy_grain, [=](const StridedRun<2>& run) {
    cast_run(target + run.offset[0], run.step[0], source + run.offset[1], run.step[1], run.count);
  });
}

template <class To>
CpuCast cast_from(DType from) noexcept {
  return by_source_type(from, []<class From>() -> CpuCast { return &cast_plan<To, From>; });
}

}  // namespace sluice::detail
