#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/pool/planes.h>
#include <sluice/operator/reduce/rows.h>

namespace sluice::detail {

namespace {

/// V neighbours a step, of planes of `packs` times as many.
template <int V, class T>
__global__ void __launch_bounds__(k_block) spread_kernel(
    const T* dy, std::int64_t size, std::int64_t packs, Divider<std::int32_t> narrow, Compute<T> elements, T* dx) {
  start_early();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * k_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * k_block + threadIdx.x; i < size; i += step) {
    const std::int64_t plane = narrow.value() == packs ? narrow.divide(static_cast<std::int32_t>(i)) : i / packs;
    const T each = static_cast<T>(static_cast<Compute<T>>(dy[plane]) / elements);
    Neighbours<T, V> made;
#pragma unroll
    for (T& element : made.at)
      element = each;
    reinterpret_cast<Neighbours<T, V>*>(dx)[i] = made;
  }
}

template <int V, class T>
void spread(const KernelCall& call, std::int64_t plane) {
  const std::int64_t size = call.outputs[0].size / V, packs = plane / V;
  // 0 is no number of packs: then numbers are too large.
  Divider<std::int32_t> narrow;
  if (size < std::numeric_limits<std::int32_t>::max() / 2)
    narrow = Divider<std::int32_t>(packs);
  else
    narrow.divisor = 0;
  spread_kernel<V><<<blocks_for(size), k_block, 0, stream_of(call.queue)>>>(
      call.inputs[0].as<const T>(), size, packs, narrow, static_cast<Compute<T>>(plane), call.outputs[0].as<T>());
  check_early_launch(call.op.name, stream_of(call.queue));
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
  by_floating(dx.dtype, [&]<class T>() {
    constexpr int widest = k_neighbours<T>;
    if (plane % widest == 0 && starts_neighbours<T, widest>(dx.data))
      spread<widest, T>(call, plane);
    else
      spread<1, T>(call, plane);
  });
}

}  // namespace sluice::detail
