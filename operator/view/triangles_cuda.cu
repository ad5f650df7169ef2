#include <cstdint>
#include <limits>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/view/triangles.h>

namespace sluice::detail {

namespace {

/// V neighbours of a row a thread; those that become 0 are not read.
template <class U, int V, class I>
__global__ void __launch_bounds__(k_block)
    triangle_kernel(const U* from, U* to, Triangles at, bool upper, I size, Divider<I> row_vectors, Divider<I> rows) {
  const I step = static_cast<I>(gridDim.x) * static_cast<I>(blockDim.x);
  for (I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x); i < size;
       i += step) {
    const I row = row_vectors.divide(i), column = (i - row * row_vectors.value()) * V;
    const I border = static_cast<I>(at.border(row - rows.divide(row) * rows.value()));
    Neighbours<U, V> part = {};
    const bool any = upper ? border < column + V : border > column;
    if (any)
      part = reinterpret_cast<const Neighbours<U, V>*>(from)[i];
#pragma unroll
    for (int v = 0; v < V; ++v)
      part.at[v] = (column + v < border) != upper ? part.at[v] : U{0};
    reinterpret_cast<Neighbours<U, V>*>(to)[i] = part;
  }
}

template <class U, int V, class I>
void launch_triangles(const KernelCall& call, const Triangles& at) {
  const std::int64_t vectors = call.outputs[0].size / V;
  triangle_kernel<U, V, I><<<blocks_for(vectors), k_block, 0, stream_of(call.queue)>>>(
      call.inputs[0].as<const U>(),
      call.outputs[0].as<U>(),
      at,
      keeps_upper(call.op),
      static_cast<I>(vectors),
      Divider<I>(at.columns / V),
      Divider<I>(at.rows));
}

template <class U, int V>
void launch_triangles(const KernelCall& call, const Triangles& at) {
  // Places, and steps behind the last one, stay below 2^31.
  if (call.outputs[0].size <= std::numeric_limits<std::int32_t>::max() / 2)
    launch_triangles<U, V, std::int32_t>(call, at);
  else
    launch_triangles<U, V, std::int64_t>(call, at);
}

}  // namespace

void triangle_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const Triangles at = triangles_of(call);
  by_element_size(size_of(x.dtype), [&]<class U>() {
    constexpr int V = k_neighbours<U>;
    if (at.columns % V == 0 && starts_neighbours<U, V>(x.data) && starts_neighbours<U, V>(y.data))
      launch_triangles<U, V>(call, at);
    else
      launch_triangles<U, 1>(call, at);
  });
  cuda::cuda_check(cudaGetLastError(), call.op.name);
}

}  // namespace sluice::detail
