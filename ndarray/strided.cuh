#pragma once

// Walking several strided operands in step, in device code: the linear index of a thread becomes one offset an operand.
// 32-bit arithmetic (divisions by multiplication) where sizes allow, chosen at launch:
//
//   template <class Geometry> __global__ void kernel(Geometry at, float* out, const float* in) {
//     for (auto i = first_index(at); i < at.size; i += index_step(at)) {
//       const auto offset = at.offsets(i);
//       out[offset[0]] = f(in[offset[1]]);
//     }
//   }
//   with_geometry(plan, [&](auto at) { kernel<<<blocks_for(at.size), k_block, 0, stream>>>(at, out, in); });
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/iterate.h>

namespace sluice::detail {

/// Throws CudaError naming `kernel` if its launch was refused; to be called right after the launch.
inline void check_launch(const char* kernel) {
  cuda::cuda_check(cudaGetLastError(), kernel);
}

/// Threads of a block in elementwise kernels.
inline constexpr int k_block = 256;

/// Blocks for `n` elements, `per_thread` of them a thread; kernels loop for what is left beyond the cap.
inline unsigned blocks_for(std::int64_t n, std::int64_t per_thread = 1) noexcept {
  const std::int64_t per_block = k_block * per_thread;
  const std::int64_t blocks = (n + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

/// Divides by a number known at launch. 32-bit: one high multiplication, one addition, one shift, exact for numerators
/// below 2^31 (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
template <class Index>
struct Divider;

template <>
struct Divider<std::int32_t> {
  std::uint32_t divisor = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(static_cast<std::uint32_t>(d)) {
    while (shift < 31 && (std::uint64_t{1} << shift) < divisor)
      ++shift;
    const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
    multiplier = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }
  __device__ std::int32_t divide(std::int32_t n) const {
    const auto numerator = static_cast<std::uint32_t>(n);
    return static_cast<std::int32_t>((__umulhi(numerator, multiplier) + numerator) >> shift);
  }
  __device__ std::int32_t value() const { return static_cast<std::int32_t>(divisor); }
};

template <>
struct Divider<std::int64_t> {
  std::int64_t divisor = 1;

  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(d) {}
  __device__ std::int64_t divide(std::int64_t n) const { return n / divisor; }
  __device__ std::int64_t value() const { return divisor; }
};

/// A StridedPlan as a kernel parameter. `Index` is std::int32_t or std::int64_t.
template <int K, class Index>
struct Geometry {
  using IndexType = Index;
  struct Offsets {
    Index at[K];
    __device__ Index operator[](int operand) const { return at[operand]; }
  };

  Index size = 0;
  int ndim = 1;
  Divider<Index> extents[k_max_ndim];
  Index strides[K][k_max_ndim];

  explicit Geometry(const StridedPlan<K>& plan) : size(static_cast<Index>(plan.size)), ndim(plan.ndim) {
    for (int axis = 0; axis < plan.ndim; ++axis) {
      if (axis > 0)  // offsets() never divides by the first
        extents[axis] = Divider<Index>(plan.extents[axis] < 1 ? 1 : plan.extents[axis]);
      for (int k = 0; k < K; ++k)
        strides[k][axis] = static_cast<Index>(plan.strides[k][axis]);
    }
  }

  /// Offsets, in elements, of element `linear` (in the plan's order).
  __device__ Offsets offsets(Index linear) const {
    Offsets result;
#pragma unroll
    for (int k = 0; k < K; ++k)
      result.at[k] = 0;
      // The loop runs over a constant so that the arrays above stay in parameter space, not in local memory.
#pragma unroll
    for (int step = 0; step < k_max_ndim; ++step) {
      const int axis = ndim - 1 - step;
      if (axis < 0)
        break;
      const Index quotient = axis == 0 ? Index{0} : extents[axis].divide(linear);
      const Index remainder = linear - quotient * extents[axis].value();
#pragma unroll
      for (int k = 0; k < K; ++k)
        result.at[k] += remainder * strides[k][axis];
      linear = quotient;
    }
    return result;
  }
};

template <class G>
__device__ typename G::IndexType first_index(const G&) {
  using Index = typename G::IndexType;
  return static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
}
template <class G>
__device__ typename G::IndexType index_step(const G&) {
  using Index = typename G::IndexType;
  return static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x);
}

/// Calls launch(geometry) with the narrowest index type. Not called for zero elements.
template <int K, class Launch>
void with_geometry(const StridedPlan<K>& plan, Launch&& launch) {
  if (plan.size == 0)
    return;
  if (fits_32_bits(plan)) {
    launch(Geometry<K, std::int32_t>(plan));
  } else {
    launch(Geometry<K, std::int64_t>(plan));
  }
}

}  // namespace sluice::detail
