#pragma once

namespace sluice::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool k_thread_sanitizer = true;
inline constexpr int k_slowdown = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool k_thread_sanitizer = false;
inline constexpr int k_slowdown = 5;
#else
inline constexpr bool k_thread_sanitizer = false;
inline constexpr int k_slowdown = 1;
#endif

/// `n` rounds, fewer under a sanitizer.
constexpr int scaled(int n) {
  return n / k_slowdown > 0 ? n / k_slowdown : 1;
}

}  // namespace sluice::test
