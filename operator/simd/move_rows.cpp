#include <cstdint>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/move_rows.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/move_rows.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void copy_lines(const std::byte* from, std::size_t bytes, std::byte* to) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t k_line = 64;
  static_assert(k_line % hn::MaxLanes(d) == 0);
  const auto* const x = reinterpret_cast<const std::uint8_t*>(from);
  auto* const y = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < bytes; i += k_line) {
    for (std::size_t j = i; j < i + k_line; j += hn::MaxLanes(d))
      hn::Stream(hn::LoadU(d, x + j), d, y + j);
  }
}

LineCopy copy() noexcept {
  return copy_lines;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

LineCopy line_copy() noexcept {
  SLUICE_SIMD_RETURN(copy())
  return nullptr;
}

}  // namespace sluice::simd
#endif
