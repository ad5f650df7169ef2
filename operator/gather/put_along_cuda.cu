// put_along_axis() along rows that shared memory holds: a block finds for each place of a row the last number that
// names it, then writes the row once, in order. Elsewhere the last ones are found in memory (gather_cuda.cu).
#include <algorithm>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>

namespace sluice::detail {

namespace {

constexpr int k_longest = 8192;  // places of a row: 32 KiB of shared memory

struct PutRows {
  std::int64_t rows, named;  // numbers a row
  int n;
};

template <class U>
__global__ void __launch_bounds__(k_group_block)
    put_along_rows(const U* x, const U* values, const __grid_constant__ ResolvedIndices indices, PutRows at, U* y) {
  start_early();
  __shared__ int last[k_longest];
  for (std::int64_t row = blockIdx.x; row < at.rows; row += gridDim.x) {
    for (int place = static_cast<int>(threadIdx.x); place < at.n; place += k_group_block)
      last[place] = -1;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < at.named; i += k_group_block) {
      if (const std::int64_t place = indices.place_of(row * at.named + i); place >= 0)
        atomicMax(last + place, static_cast<int>(i));
    }
    __syncthreads();
    for (int place = static_cast<int>(threadIdx.x); place < at.n; place += k_group_block) {
      const int from = last[place];
      y[row * at.n + place] = from < 0 ? x[row * at.n + place] : values[row * at.named + from];
    }
    __syncthreads();
  }
}

}  // namespace

bool put_along_rows_gpu(const KernelCall& call, const Taking& taking) {
  constexpr std::int64_t k_enough = 128;  // rows that keep a GPU busy
  const Placing& place = taking.place;
  const TensorView& y = call.outputs[0];
  if (place.inner != 1 || place.extents[0] > k_longest || place.entries > std::numeric_limits<int>::max())
    return false;
  const PutRows at{place.count / place.entries, place.entries, static_cast<int>(place.extents[0])};
  if (at.rows < k_enough || at.rows * at.n != y.size)
    return false;
  by_element_size(size_of(y.dtype), [&]<class U>() {
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(at.rows, 65536));
    put_along_rows<<<blocks, k_group_block, 0, stream_of(call.queue)>>>(
        call.inputs[0].as<const U>(), call.inputs[2].as<const U>(), ResolvedIndices(call, place), at, y.as<U>());
  });
  check_early_launch(call.op.name, stream_of(call.queue));
  return true;
}

}  // namespace sluice::detail
