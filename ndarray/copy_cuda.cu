// Copies and fills of bits, whatever they mean, and the choice of a cast.
#include <cstring>

#include <sluice/ndarray/detail/cast_kernels.cuh>
#include <sluice/ndarray/detail/copy_transposed.cuh>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>

namespace sluice::detail {
namespace {

template <class Bits, class G>
__global__ void fill_strided(G at, Bits* to, Bits value) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at))
    to[at.offsets(i)[0]] = value;
}

template <class Bits>
__global__ void fill_packed(Bits* to, std::int64_t size, Bits value) {
  start_early();
  const std::int64_t packs = size / k_pack;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Pack<Bits> pack{value, value, value, value};
  for (std::int64_t i = first; i < packs; i += step)
    reinterpret_cast<Pack<Bits>*>(to)[i] = pack;
  for (std::int64_t i = packs * k_pack + first; i < size; i += step)
    to[i] = value;
}

template <class Bits>
void launch_fill(void* stream, const FillPlan& plan, void* to, const void* value) {
  Bits bits;
  std::memcpy(&bits, value, sizeof bits);
  Bits* const target = static_cast<Bits*>(to);
  const auto on = static_cast<cudaStream_t>(stream);
  if (plan.contiguous() && is_packable<Bits>(to)) {
    fill_packed<<<blocks_for(plan.size, k_pack), k_block, 0, on>>>(target, plan.size, bits);
    check_early_launch("fill_packed", on);
    return;
  }
  with_geometry(plan, [&](auto at) {
    fill_strided<<<blocks_for(plan.size), k_block, 0, on>>>(at, target, bits);
    check_early_launch("fill_strided", on);
  });
}

GpuCast cast_for(DType to, DType from) noexcept {
  switch (to) {
    case DType::bool_:
    case DType::uint8:
    case DType::int8:
      return gpu_cast_to_bytes(to, from);
    case DType::int32:
    case DType::int64:
      return gpu_cast_to_integer(to, from);
    case DType::float16:
    case DType::bfloat16:
      return gpu_cast_to_small_float(to, from);
    default:
      return gpu_cast_to_float(to, from);
  }
}

}  // namespace

void cast_on_gpu(void* stream, const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type) {
  if (plan.size == 0)
    return;
  if (to_type != from_type && !(is_computed(to_type) && is_computed(from_type)))
    return cast_stored_on_gpu(stream, plan, to, to_type, from, from_type);
  if (to_type != from_type)
    return cast_for(to_type, from_type)(stream, plan, to, from);
  if (plan.contiguous())
    return copy_bytes(stream, to, from, static_cast<std::size_t>(plan.size) * size_of(to_type));
  if (interleave_on_gpu(stream, plan, to, from, size_of(to_type)))
    return;
  if (copy_transposed(stream, plan, to, from, size_of(to_type)))
    return;
  by_element_size(size_of(to_type), [&]<class T>() { launch_cast<T, T>(stream, plan, to, from); });
}

void fill_on_gpu(void* stream, const FillPlan& plan, void* to, DType type, Scalar value) {
  if (plan.size == 0)
    return;
  by_any_dtype(type, [&]<class T>() {
    const T element = value.kind() == Scalar::Kind::real ? convert<T>(value.as_double()) : convert<T>(value.as_int64());
    if constexpr (sizeof(T) == 1) {
      launch_fill<std::uint8_t>(stream, plan, to, &element);
    } else if constexpr (sizeof(T) == 2) {
      launch_fill<std::uint16_t>(stream, plan, to, &element);
    } else if constexpr (sizeof(T) == 4) {
      launch_fill<std::uint32_t>(stream, plan, to, &element);
    } else {
      launch_fill<std::uint64_t>(stream, plan, to, &element);
    }
  });
}

void copy_bytes(void* stream, void* to, const void* from, std::size_t bytes) {
  const auto on = static_cast<cudaStream_t>(stream);
  cuda::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on), "cudaMemcpyAsync");
}

void copy_bytes_between_gpus(void* stream, void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes) {
  const auto on = static_cast<cudaStream_t>(stream);
  cuda::cuda_check(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, on), "cudaMemcpyPeerAsync");
}

}  // namespace sluice::detail
