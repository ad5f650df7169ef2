#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/search.h>

namespace sluice::detail {

namespace {

template <class U>
__global__ void __launch_bounds__(k_block) search_kernel(Search<U> search, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    search.find(i);
}

}  // namespace

void searchsorted_gpu(const KernelCall& call) {
  const std::int64_t size = call.outputs[0].size;
  if (size == 0)
    return;
  by_key(call.inputs[0].dtype, [&]<class U>() {
    search_kernel<<<blocks_for(size), k_block, 0, stream_of(call.queue)>>>(Search<U>(call), size);
  });
  check_launch("searchsorted");
}

}  // namespace sluice::detail
