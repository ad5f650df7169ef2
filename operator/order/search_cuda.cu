#include <algorithm>

#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/multiprocessors.h>
#include <sluice/operator/order/search.h>

namespace sluice::detail {

namespace {

constexpr int k_values_each = 4;
// Of a row's keys, in shared memory: as many as leave room for several blocks.
template <class U>
constexpr int k_most_keys = 16384 / sizeof(U);

template <class U>
__global__ void __launch_bounds__(k_block) search_kernel(Search<U> search, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    search.find(i);
}

// Of one row, whose keys are made once a block and lie in shared memory where that holds them. A thread looks for some
// values at once, the next thread for those beside them.
template <class U, bool Shared>
__global__ void __launch_bounds__(k_block) search_row_kernel(Search<U> search, std::int64_t size) {
  __shared__ U kept[Shared ? k_most_keys<U> : 1];
  if constexpr (Shared) {
    for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(search.n); i += k_block)
      kept[i] = search.sorted_key(i);
    __syncthreads();
  }
  constexpr std::int64_t k_tile = k_block * k_values_each;
  for (std::int64_t first = blockIdx.x * k_tile + threadIdx.x; first < size; first += gridDim.x * k_tile) {
    U keys[k_values_each];
#pragma unroll
    for (int j = 0; j < k_values_each; ++j)
      keys[j] = search.key_of(min(first + j * k_block, size - 1));
    std::conditional_t<Shared, int, std::int64_t> low[k_values_each];
    if constexpr (Shared) {
      search.find_each(keys, low, static_cast<int>(search.n), [&](int at) { return kept[at]; });
    } else {
      search.find_each(keys, low, search.n, [&](std::int64_t at) { return search.sorted_key(at); });
    }
#pragma unroll
    for (int j = 0; j < k_values_each; ++j) {
      if (first + j * k_block < size)
        search.places[first + j * k_block] = low[j];
    }
  }
}

template <class U>
void search_row(const Search<U>& search, std::int64_t size, cudaStream_t stream) {
  // What a large GPU runs at once: more would only make keys again.
  constexpr std::int64_t k_most_blocks = k_multiprocessors * 8;
  constexpr std::int64_t k_tile = k_block * k_values_each;
  const auto blocks = static_cast<unsigned>(std::min((size + k_tile - 1) / k_tile, k_most_blocks));
  if (search.n <= k_most_keys<U>)
    search_row_kernel<U, true><<<blocks, k_block, 0, stream>>>(search, size);
  else
    search_row_kernel<U, false><<<blocks, k_block, 0, stream>>>(search, size);
}

}  // namespace

void searchsorted_gpu(const KernelCall& call) {
  const std::int64_t size = call.outputs[0].size;
  if (size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_key(call.inputs[0].dtype, [&]<class U>() {
    const Search<U> search(call);
    if (search.each >= size)
      search_row(search, size, stream);
    else
      search_kernel<<<blocks_for(size), k_block, 0, stream>>>(search, size);
  });
  check_launch("searchsorted");
}

}  // namespace sluice::detail
