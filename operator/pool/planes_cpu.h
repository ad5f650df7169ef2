#pragma once

// What the CPU's poolings share.
#include <algorithm>
#include <cstdint>

#include <sluice/engine/parallel.h>
#include <sluice/operator/pool/window.h>

namespace sluice::detail {

inline std::int64_t in_plane(const PoolGeometry& g) noexcept {
  return g.in[0] * g.in[1];
}
inline std::int64_t out_plane(const PoolGeometry& g) noexcept {
  return g.out[0] * g.out[1];
}

/// Calls body(begin, end) for ranges of planes, `elements` of work each.
template <class Body>
void for_each_plane(const PoolGeometry& g, std::int64_t elements, Body&& body) {
  constexpr std::int64_t k_grain = 4 * 1024;  // elements worth a thread
  parallel_for(g.planes, std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, elements)), body);
}

/// Poolings in vectors; false, and nothing done, where there are none for the type.
bool max_pool2d_in_vectors(const KernelCall& call, const PoolGeometry& g);
bool avg_pool2d_in_vectors(const KernelCall& call, const PoolGeometry& g);

/// to += x
void add_row(const float* x, std::int64_t n, float* to);
inline void add_row(const double* x, std::int64_t n, double* to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] += x[i];
}

}  // namespace sluice::detail
