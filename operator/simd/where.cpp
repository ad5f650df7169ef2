#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/where.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/where.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

// A plain loop, which becomes vectors: both elements are read, whichever is taken.
template <class T>
void choose(void* out, const void* const* in, std::int64_t n, bool) {
  const auto* condition = static_cast<const std::uint8_t*>(in[0]);
  const T *a = static_cast<const T*>(in[1]), *b = static_cast<const T*>(in[2]);
  T* to = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T x = a[i], y = b[i];
    to[i] = condition[i] != 0 ? x : y;
  }
}

detail::PointwiseLoop loop_of(std::size_t size) {
  return size == 1   ? choose<std::uint8_t>
         : size == 4 ? choose<std::uint32_t>
         : size == 8 ? choose<std::uint64_t>
                     : nullptr;
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

detail::PointwiseLoop where_loop([[maybe_unused]] std::size_t size) noexcept {
  SLUICE_SIMD_RETURN(loop_of(size))
  return nullptr;
}

}  // namespace sluice::simd
#endif
