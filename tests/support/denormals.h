#pragma once

#include <cstdint>
#include <limits>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace sluice::test {

/// False on processors whose mode Sluice does not know: nothing is flushed there.
#if defined(__SSE__) || defined(__aarch64__)
inline constexpr bool k_can_flush = true;
#else
inline constexpr bool k_can_flush = false;
#endif

/// Some denormal float.
inline constexpr float k_denormal = 1e-40f;

/// Whether the calling thread computes with denormals as they are. The compiler may not work it out before.
inline bool keeps_denormals() noexcept {
  volatile float tiny = k_denormal, smallest = std::numeric_limits<float>::min(), half = 0.5f, one = 1.0f;
  return tiny * one != 0.0f && smallest * half != 0.0f;
}

/// Makes the calling thread flush denormals by its own will while it lives, as a program may.
class OwnFlushing {
 public:
#if defined(__SSE__)
  OwnFlushing() noexcept : before_(_mm_getcsr()) {
    _mm_setcsr(static_cast<unsigned>(before_) | 0x8040u);
  }
  ~OwnFlushing() {
    _mm_setcsr(static_cast<unsigned>(before_));
  }
#elif defined(__aarch64__)
  OwnFlushing() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | std::uint64_t{1} << 24) : "memory");
  }
  ~OwnFlushing() {
    asm volatile("msr fpcr, %0" : : "r"(before_) : "memory");
  }
#else
  OwnFlushing() noexcept = default;
  ~OwnFlushing() = default;
#endif
  OwnFlushing(const OwnFlushing&) = delete;
  OwnFlushing& operator=(const OwnFlushing&) = delete;

 private:
  std::uint64_t before_ = 0;
};

}  // namespace sluice::test
