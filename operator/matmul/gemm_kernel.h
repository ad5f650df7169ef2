#pragma once

#include <cstdint>

namespace sluice::detail {

/// The innermost step of a product: tile (rows, columns) += a b over `k`, from packed panels a[k][rows], b[k][columns].
template <class Acc>
struct GemmKernel {
  int rows = 0;
  int columns = 0;
  void (*run)(std::int64_t k, const Acc* a, const Acc* b, Acc* tile, std::int64_t tile_stride) = nullptr;
};

/// The kernel for the widest vectors that this machine has. Acc: float, double, std::uint32_t, std::uint64_t.
template <class Acc>
const GemmKernel<Acc>& gemm_kernel() noexcept;

}  // namespace sluice::detail
