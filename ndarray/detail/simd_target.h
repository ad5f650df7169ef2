#pragma once

#include <cstdint>

namespace sluice::simd {

/// Instruction sets that the vector kernels are compiled for. `scalar` has none of them: the plain loops serve there.
enum class Target : std::uint8_t { scalar, neon, avx2, avx512 };

/// What kernels are chosen for: the best set that the library has kernels for and this machine runs, unless a test said
/// otherwise.
Target target() noexcept;

/// Does this machine run it, and are there kernels for it? Always so of `scalar`.
bool is_available(Target target) noexcept;

/// For tests: makes the calling process choose kernels of `target`, which is_available(), until it goes.
class TargetScope {
 public:
  explicit TargetScope(Target target) noexcept;
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;
  ~TargetScope();

 private:
  const Target before_;
};

}  // namespace sluice::simd
