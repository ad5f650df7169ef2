#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/view/range.h>

namespace sluice::detail {

namespace {

template <class T>
__global__ void __launch_bounds__(k_group_block) range_kernel(double start, double step, T* to, std::int64_t size) {
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    to[i] = range_entry<T>(start, step, i);
}

}  // namespace

void range_gpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RangeAttributes>();
  const TensorView& to = call.outputs[0];
  if (to.size == 0)
    return;
  by_any_dtype(to.dtype, [&]<class T>() {
    range_kernel<<<blocks_for_groups(to.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        a.start, a.step, to.as<T>(), to.size);
  });
  cuda::cuda_check(cudaGetLastError(), "arange");
}

}  // namespace sluice::detail
