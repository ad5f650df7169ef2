#pragma once

// The instruction sets that a test of vector kernels runs on, and comparisons by bits.
#include <cstring>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/simd_target.h>

namespace sluice::test {

/// Those that this machine has; the plain loops are the first.
inline std::vector<simd::Target> simd_targets() {
  std::vector<simd::Target> all;
  for (const simd::Target target :
       {simd::Target::scalar, simd::Target::neon, simd::Target::avx2, simd::Target::avx512}) {
    if (simd::is_available(target))
      all.push_back(target);
  }
  return all;
}

inline const char* name_of(simd::Target target) {
  constexpr const char* k_names[] = {"scalar", "NEON", "AVX2", "AVX-512"};
  return k_names[static_cast<std::size_t>(target)];
}

/// Of the numbers, which all types of ours have exactly as doubles; signs of zeros count.
inline bool equal_bits(const NDArray& a, const NDArray& b) {
  const auto u = a.to_vector<double>(), v = b.to_vector<double>();
  return u.size() == v.size() && (u.empty() || std::memcmp(u.data(), v.data(), u.size() * sizeof(double)) == 0);
}

}  // namespace sluice::test
