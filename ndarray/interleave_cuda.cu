// Copies that bring a few planes together on a GPU, or part them again, as interleave_cpu.cpp does: each thread reads
// and writes 16 bytes at a time.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include <sluice/ndarray/detail/copy_transposed.cuh>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/plan_beside.h>
#include <sluice/ndarray/planes.h>

namespace sluice::detail {
namespace {

constexpr int k_most_kept = 4;  // planes whose vectors a thread keeps

/// Of each plane a vector of V elements, or all that is made of them.
template <int Count, bool Together, class Bits, class G>
__global__ void __launch_bounds__(k_block) interleave_kernel(
    G rest, Divider<std::int32_t> vectors, std::int64_t step, std::int32_t total, Bits* to, const Bits* from) {
  start_early();
  constexpr int V = 16 / sizeof(Bits);
  using Vector = Neighbours<Bits, V>;
  const auto at = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= total)
    return;
  const std::int32_t which = vectors.divide(at), vector = at - which * vectors.value();
  const auto offsets = rest.offsets(static_cast<typename G::IndexType>(which));
  const std::int64_t first = static_cast<std::int64_t>(vector) * V;
  const Bits* const source = from + offsets[1] + (Together ? first : first * Count);
  Bits* const target = to + offsets[0] + (Together ? first * Count : first);
  Bits of[Count * V];
#pragma unroll
  for (int plane = 0; plane < Count; ++plane) {
    const Vector read = *reinterpret_cast<const Vector*>(source + (Together ? plane * step : plane * V));
#pragma unroll
    for (int k = 0; k < V; ++k)
      of[plane * V + k] = read.at[k];
  }
#pragma unroll
  for (int plane = 0; plane < Count; ++plane) {
    Vector made;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const int place = plane * V + k;  // of what is written, in its order
      made.at[k] = Together ? of[place % Count * V + place / Count] : of[k * Count + plane];
    }
    *reinterpret_cast<Vector*>(target + (Together ? plane * V : plane * step)) = made;
  }
}

template <class Bits>
bool launch_planes(cudaStream_t stream, const CopyPlan& plan, const Planes& planes, Bits* to, const Bits* from) {
  constexpr std::int64_t V = 16 / sizeof(Bits);
  const std::int64_t count = plan.extents[planes.across], n = plan.extents[planes.along];
  const CopyPlan rest = plan_beside(plan, std::min(planes.along, planes.across));  // the other of them is innermost
  const std::int64_t step = plan.strides[planes.together ? 1 : 0][planes.across];
  const auto address = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  bool whole = count <= k_most_kept && n % V == 0 && step % V == 0 && address % 16 == 0 &&
               rest.size * (n / V) < std::numeric_limits<std::int32_t>::max() / 2;
  for (int axis = 0; axis < rest.ndim; ++axis)
    whole = whole && rest.strides[0][axis] % V == 0 && rest.strides[1][axis] % V == 0;
  if (!whole)
    return false;
  const auto total = static_cast<std::int32_t>(rest.size * (n / V));
  const Divider<std::int32_t> vectors(n / V);
  const auto blocks = static_cast<unsigned>((total + k_block - 1) / k_block);
  with_geometry(rest, [&](auto at) {
    const auto run = [&]<int Count>() {
      if (planes.together) {
        interleave_kernel<Count, true><<<blocks, k_block, 0, stream>>>(at, vectors, step, total, to, from);
      } else {
        interleave_kernel<Count, false><<<blocks, k_block, 0, stream>>>(at, vectors, step, total, to, from);
      }
    };
    if (count == 2)
      run.template operator()<2>();
    else if (count == 3)
      run.template operator()<3>();
    else
      run.template operator()<4>();
    check_early_launch("copy", stream);
  });
  return true;
}

}  // namespace

bool interleave_on_gpu(void* stream, const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  const std::optional<Planes> planes = find_planes(plan);
  if (!planes)
    return false;
  return by_element_size(element, [&]<class Bits>() {
    if constexpr (sizeof(Bits) > 4)
      return false;  // two of them are a vector already
    else
      return launch_planes(
          static_cast<cudaStream_t>(stream), plan, *planes, static_cast<Bits*>(to), static_cast<const Bits*>(from));
  });
}

}  // namespace sluice::detail
