#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/pool/planes.h>
#include <sluice/operator/reduce/rows.h>

namespace sluice::detail {

namespace {

/// 16 bytes of one number.
template <class T>
__device__ void put_alike(void* data, std::int64_t pack, T number) {
  Neighbours<T, k_neighbours<T>> made;
#pragma unroll
  for (T& element : made.at)
    element = number;
  static_cast<Neighbours<T, k_neighbours<T>>*>(data)[pack] = made;
}

/// `size` steps, of one element or `in_packs` of 16 bytes; a plane has `steps`.
template <class C>
__global__ void __launch_bounds__(k_block) spread_over_planes_kernel(
    FloatingArray<C> dy,
    std::int64_t size,
    std::int64_t steps,
    Divider<std::int32_t> narrow,
    C elements,
    bool in_packs,
    FloatingArray<C> dx) {
  start_early();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * k_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * k_block + threadIdx.x; i < size; i += step) {
    const std::int64_t plane = narrow.value() == steps ? narrow.divide(static_cast<std::int32_t>(i)) : i / steps;
    const C each = dy[plane] / elements;
    if (!in_packs)
      dx.put(i, each);
    else if (dx.dtype == DType::float16)
      put_alike(dx.data, i, static_cast<Half>(each));
    else if (dx.dtype == DType::bfloat16)
      put_alike(dx.data, i, static_cast<BFloat16>(each));
    else
      put_alike(dx.data, i, each);
  }
}

}  // namespace

void mean_of_planes_gpu(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const ReduceSettings settings{{2, 3}, static_cast<double>(x.shape[2]) * static_cast<double>(x.shape[3])};
  by_floating(x.dtype, [&]<class T>() { reduce_type_on_gpu<T>(Reduction::mean, call, settings); });
}

void spread_over_planes_gpu(const KernelCall& call) {
  const TensorView& dx = call.outputs[0];
  const std::int64_t plane = dx.shape[2] * dx.shape[3];
  if (dx.size == 0)
    return;
  const auto bytes = static_cast<std::int64_t>(size_of(dx.dtype));
  const bool in_packs = plane * bytes % 16 == 0 && starts_neighbours<float, 4>(dx.data);
  const std::int64_t each = in_packs ? 16 / bytes : 1, size = dx.size / each, steps = plane / each;
  Divider<std::int32_t> narrow;
  if (size < std::numeric_limits<std::int32_t>::max() / 2)
    narrow = Divider<std::int32_t>(steps);
  else
    narrow.divisor = 0;  // no number of steps
  by_computing_type(dx.dtype, [&]<class C>() {
    spread_over_planes_kernel<C><<<blocks_for(size), k_block, 0, stream_of(call.queue)>>>(
        FloatingArray<C>(call.inputs[0]), size, steps, narrow, static_cast<C>(plane), in_packs, FloatingArray<C>(dx));
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

}  // namespace sluice::detail
