#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/index_value.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/bins.h>

namespace sluice::detail {

namespace {

constexpr int k_shared_bins = 4096;
using Count = unsigned long long;  // NOLINT: what atomicAdd takes

/// Counts of whole numbers, which are the same in any order; those of a block come together first, if they are few.
__global__ void __launch_bounds__(k_block)
    bincount_kernel(const void* x, DType dtype, std::int64_t size, std::int64_t bins, Count* counts) {
  __shared__ unsigned own[k_shared_bins];
  const bool together = bins <= k_shared_bins;
  for (int bin = static_cast<int>(threadIdx.x); together && bin < bins; bin += k_block)
    own[bin] = 0;
  __syncthreads();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
    const std::int64_t bin = load_index(x, dtype, i);
    if (bin < 0 || bin >= bins)
      continue;
    if (together)
      atomicAdd(&own[bin], 1u);
    else
      atomicAdd(&counts[bin], Count{1});
  }
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); together && bin < bins; bin += k_block) {
    if (own[bin] != 0)
      atomicAdd(&counts[bin], Count{own[bin]});
  }
}

}  // namespace

void bincount_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  cuda::cuda_check(
      cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.size) * sizeof(Count), stream), "cudaMemsetAsync");
  if (x.size == 0)
    return;
  const unsigned blocks = std::min(blocks_for(x.size, 16), 2048u);
  bincount_kernel<<<blocks, k_block, 0, stream>>>(x.data, x.dtype, x.size, y.size, static_cast<Count*>(y.data));
  check_launch("bincount");
}

}  // namespace sluice::detail
