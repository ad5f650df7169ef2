#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/elementwise/number_parts.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>

namespace sluice::detail {

namespace {

template <class U>
__global__ void __launch_bounds__(k_group_block)
    nextafter_kernel(NumberLayout<U> of, const U* a, const U* b, U* to, std::int64_t size) {
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    to[i] = of.next(a[i], b[i]);
}

template <class U>
__global__ void __launch_bounds__(k_group_block)
    frexp_kernel(NumberLayout<U> of, const U* x, U* mantissas, std::int32_t* exponents, std::int64_t size) {
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    mantissas[i] = of.split(x[i], exponents[i]);
}

}  // namespace

void nextafter_gpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  if (to.size == 0)
    return;
  by_number_bits(to.dtype, [&]<class U>() {
    nextafter_kernel<U><<<blocks_for_groups(to.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        NumberLayout<U>(to.dtype), call.inputs[0].as<const U>(), call.inputs[1].as<const U>(), to.as<U>(), to.size);
  });
  cuda::cuda_check(cudaGetLastError(), "nextafter");
}

void frexp_gpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  if (to.size == 0)
    return;
  by_number_bits(to.dtype, [&]<class U>() {
    frexp_kernel<U><<<blocks_for_groups(to.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        NumberLayout<U>(to.dtype),
        call.inputs[0].as<const U>(),
        to.as<U>(),
        call.outputs[1].as<std::int32_t>(),
        to.size);
  });
  cuda::cuda_check(cudaGetLastError(), "frexp");
}

}  // namespace sluice::detail
