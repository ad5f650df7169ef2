#pragma once

// Catch2 of either generation, and a skip that is counted: 2.13 has none of its own.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

#include <sluice/engine/device.h>

#if CATCH_VERSION_MAJOR >= 3
using Catch::Approx;  // which 2.13 gives to everybody
#endif

namespace sluice::test {
/// Matches texts that hold `part`.
inline auto contains(const std::string& part) {
#if CATCH_VERSION_MAJOR >= 3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Contains(part);
#endif
}

/// Counts the running test case as skipped, with the reason.
void note_skip(const std::string& reason);
}  // namespace sluice::test

/// Leaves the running test case and counts it as skipped.
#define SLUICE_SKIP(reason)            \
  do {                                 \
    ::sluice::test::note_skip(reason); \
    return;                            \
  } while (false)

/// The rest of the test case needs `n` GPUs.
#define SLUICE_NEEDS_GPUS(n)                                 \
  do {                                                       \
    if (::sluice::num_gpus() < (n))                          \
      SLUICE_SKIP("needs " + std::to_string(n) + " GPU(s)"); \
  } while (false)

/// The rest of the test case needs kernels for GPUs, if none to run them.
#ifdef SLUICE_CUDA
#define SLUICE_NEEDS_GPU_KERNELS() static_cast<void>(0)
#else
#define SLUICE_NEEDS_GPU_KERNELS() SLUICE_SKIP("needs a build with CUDA")
#endif
