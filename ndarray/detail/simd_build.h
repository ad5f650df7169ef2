#pragma once

// For files that are compiled once for each instruction set: which sets, and how the right one's function is called.
// Such a file includes this, says HWY_TARGET_INCLUDE (itself), then includes <hwy/foreach_target.h>; what stands in
// HWY_BEFORE_NAMESPACE() to HWY_AFTER_NAMESPACE() is compiled for each set, what stands in #if HWY_ONCE once.
#include <sluice/ndarray/detail/simd_target.h>

#if SLUICE_HIGHWAY

// AVX2, AVX-512, NEON; what lies between and below is served by the plain loops. Versions of Highway name more or
// fewer; names that one lacks count as 0.
#define HWY_DISABLED_TARGETS                                                                                         \
  (HWY_SSE2 | HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128)
#include <hwy/detect_targets.h>
#ifndef HWY_SSE2
#define HWY_SSE2 0
#endif
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif

// Is the set that is being compiled one of ours?
#define SLUICE_SIMD_HERE                                                               \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || (HWY_TARGET & HWY_NEON) != 0 || \
   (HWY_TARGET & HWY_NEON_WITHOUT_AES) != 0)

#if HWY_TARGETS & HWY_AVX3
#define SLUICE_SIMD_AVX512(...) \
  case Target::avx512:          \
    return N_AVX3::__VA_ARGS__;
#else
#define SLUICE_SIMD_AVX512(...)
#endif
#if HWY_TARGETS & HWY_AVX2
#define SLUICE_SIMD_AVX2(...) \
  case Target::avx2:          \
    return N_AVX2::__VA_ARGS__;
#else
#define SLUICE_SIMD_AVX2(...)
#endif
#if HWY_TARGETS & HWY_NEON_WITHOUT_AES
#define SLUICE_SIMD_NEON(...) \
  case Target::neon:          \
    return N_NEON_WITHOUT_AES::__VA_ARGS__;
#elif HWY_TARGETS & HWY_NEON
#define SLUICE_SIMD_NEON(...) \
  case Target::neon:          \
    return N_NEON::__VA_ARGS__;
#else
#define SLUICE_SIMD_NEON(...)
#endif

// Returns what the call gives in the namespace of the chosen set; goes on if there are no kernels for it.
#define SLUICE_SIMD_RETURN(...)     \
  switch (target()) {               \
    SLUICE_SIMD_AVX512(__VA_ARGS__) \
    SLUICE_SIMD_AVX2(__VA_ARGS__)   \
    SLUICE_SIMD_NEON(__VA_ARGS__)   \
    default:                        \
      break;                        \
  }

#else
#define SLUICE_SIMD_RETURN(...)
#endif

// The function `name` of sluice::simd: the table that the call gives in the namespace of the chosen set; null where the
// plain loops serve. To stand where a file is compiled once.
#define SLUICE_SIMD_TABLE(Rows, name, ...) \
  namespace sluice::simd {                 \
  const Rows* name() noexcept {            \
    SLUICE_SIMD_RETURN(__VA_ARGS__)        \
    return nullptr;                        \
  }                                        \
  }
