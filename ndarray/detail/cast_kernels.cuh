#pragma once

#include <cuda_runtime.h>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {

inline constexpr int k_pack = 4;  // neighbours that a thread loads and stores at once

template <class T>
using Pack = Neighbours<T, k_pack>;

template <class T>
bool is_packable(const void* data) noexcept {
  return starts_neighbours<T, k_pack>(data);
}

template <class To, class From>
__global__ void cast_packed(To* to, const From* from, std::int64_t size) {
  start_early();
  const std::int64_t packs = size / k_pack;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < packs; i += step) {
    const Pack<From> in = reinterpret_cast<const Pack<From>*>(from)[i];
    Pack<To> out;
#pragma unroll
    for (int k = 0; k < k_pack; ++k)
      out.at[k] = convert<To>(in.at[k]);
    reinterpret_cast<Pack<To>*>(to)[i] = out;
  }
  for (std::int64_t i = packs * k_pack + first; i < size; i += step)
    to[i] = convert<To>(from[i]);
}

template <class To, class From, class G>
__global__ void cast_strided(G at, To* to, const From* from) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    to[offset[0]] = convert<To>(from[offset[1]]);
  }
}

template <class To, class From>
void launch_cast(void* stream, const CopyPlan& plan, void* to, const void* from) {
  if (plan.size == 0)
    return;
  To* const target = static_cast<To*>(to);
  const From* const source = static_cast<const From*>(from);
  const auto on = static_cast<cudaStream_t>(stream);
  if (plan.contiguous() && is_packable<To>(to) && is_packable<From>(from)) {
    cast_packed<<<blocks_for(plan.size, k_pack), k_block, 0, on>>>(target, source, plan.size);
    check_early_launch("cast_packed", on);
    return;
  }
  with_geometry(plan, [&](auto at) {
    cast_strided<<<blocks_for(plan.size), k_block, 0, on>>>(at, target, source);
    check_early_launch("cast_strided", on);
  });
}

template <class To>
struct LaunchCast {
  template <class From>
  GpuCast operator()() const noexcept {
    return &launch_cast<To, From>;
  }
};

template <class To>
GpuCast launch_cast_from(DType from) noexcept {
  return by_source_type(from, LaunchCast<To>{});
}

}  // namespace sluice::detail
