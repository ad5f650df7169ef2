#include <atomic>

#include <sluice/ndarray/detail/simd_target.h>

namespace sluice::simd {

namespace {

Target best() noexcept {
#if SLUICE_HIGHWAY && defined(__x86_64__)
  __builtin_cpu_init();
  // What Highway asks of AVX2 and of AVX-512; the system's part (wide registers kept) is in these answers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return !has_avx2 ? Target::scalar : has_avx512 ? Target::avx512 : Target::avx2;
#elif SLUICE_HIGHWAY && defined(__aarch64__)
  return Target::neon;
#else
  return Target::scalar;
#endif
}

std::atomic<Target>& chosen() noexcept {
  static std::atomic<Target> target{best()};
  return target;
}

}  // namespace

Target target() noexcept {
  return chosen().load(std::memory_order_relaxed);
}

bool is_available(Target target) noexcept {
  static const Target top = best();
  return target == Target::scalar || target == top || (target == Target::avx2 && top == Target::avx512);
}

TargetScope::TargetScope(Target target) noexcept : before_(chosen().exchange(target)) {}

TargetScope::~TargetScope() {
  chosen().store(before_);
}

}  // namespace sluice::simd
