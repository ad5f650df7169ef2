#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/order/bins.h>

namespace sluice::detail {

namespace {

constexpr int k_shared_bins = 4096;
using Count = unsigned long long;  // NOLINT: what atomicAdd takes

/// Counts, which are the same in any order; those of a block come together first, if they are few. All threads of the
/// block make it and finish it.
struct BlockCounts {
  Count* all;
  unsigned* own;  // null: bins are too many
  std::int64_t bins;

  __device__ BlockCounts(Count* counts, std::int64_t count) : all(counts), own(nullptr), bins(count) {
    __shared__ unsigned together[k_shared_bins];
    if (bins > k_shared_bins)
      return;
    own = together;
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += k_block)
      own[bin] = 0;
    __syncthreads();
  }
  __device__ void add(std::int64_t bin) const {
    if (own != nullptr)
      atomicAdd(&own[bin], 1u);
    else
      atomicAdd(&all[bin], Count{1});
  }
  __device__ void finish() const {
    if (own == nullptr)
      return;
    __syncthreads();
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += k_block) {
      if (own[bin] != 0)
        atomicAdd(&all[bin], Count{own[bin]});
    }
  }
};

__global__ void __launch_bounds__(k_block)
    bincount_kernel(const void* x, DType dtype, std::int64_t size, std::int64_t bins, Count* counts) {
  const BlockCounts mine(counts, bins);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
    const std::int64_t bin = load_index(x, dtype, i);
    if (bin >= 0 && bin < bins)
      mine.add(bin);
  }
  mine.finish();
}

template <class C>
__global__ void __launch_bounds__(k_block)
    histogram_kernel(FloatingArray<C> x, std::int64_t size, EqualBins equal, Count* counts, double* edges) {
  start_early();
  constexpr int k_under_way = 4;
  const BlockCounts mine(counts, equal.bins);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = first; i < size; i += k_under_way * step) {
    C loaded[k_under_way];
#pragma unroll
    for (int u = 0; u < k_under_way; ++u)
      loaded[u] = x[min(i + u * step, size - 1)];
#pragma unroll
    for (int u = 0; u < k_under_way; ++u) {
      const std::int64_t bin = equal.of(loaded[u]);
      if (bin >= 0 && i + u * step < size)
        mine.add(bin);
    }
  }
  mine.finish();
  for (std::int64_t i = first; i <= equal.bins; i += step)
    edges[i] = i == equal.bins ? equal.high : equal.edge(i);
}

/// Zeros.
Count* cleared(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  cuda::cuda_check(
      cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.size) * sizeof(Count), stream_of(call.queue)),
      "cudaMemsetAsync");
  return static_cast<Count*>(y.data);
}

}  // namespace

void histogram_gpu(const KernelCall& call) {
  constexpr unsigned k_most_blocks = 2048;
  const TensorView &x = call.inputs[0], &edges = call.outputs[1];
  const EqualBins equal(call.attributes.as<HistogramAttributes>());
  Count* const counts = cleared(call);
  const unsigned blocks = std::min(blocks_for(std::max(x.size / 16, edges.size)), k_most_blocks);
  by_computing_type(x.dtype, [&]<class C>() {
    histogram_kernel<<<blocks, k_block, 0, stream_of(call.queue)>>>(
        FloatingArray<C>(x), x.size, equal, counts, edges.as<double>());
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

void bincount_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  Count* const counts = cleared(call);
  if (x.size == 0)
    return;
  const unsigned blocks = std::min(blocks_for(x.size, 16), 2048u);
  bincount_kernel<<<blocks, k_block, 0, stream_of(call.queue)>>>(x.data, x.dtype, x.size, y.size, counts);
  check_launch("bincount");
}

}  // namespace sluice::detail
