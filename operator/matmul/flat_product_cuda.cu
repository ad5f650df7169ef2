#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/small_product.cuh>

namespace sluice::detail {
namespace {

// Sums of so few terms that a thread has them all under way: no memory is shared, no thread waits for another.
constexpr int k_flat_block = 128, k_flat_own = 4, k_flat_columns = 32;  // of a thread, of a block
constexpr int k_flat_rows = k_flat_block * k_flat_own / k_flat_columns;

template <int depth, class T>
__global__ void __launch_bounds__(k_flat_block) flat_product_kernel(SmallProduct<T> p, bool vectors) {
  start_early();
  using Acc = Compute<T>;
  using Pack = Neighbours<T, k_flat_own>;
  constexpr int quads = k_flat_columns / k_flat_own;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y) * k_flat_rows + thread / quads;
  const int column = static_cast<int>(blockIdx.x) * k_flat_columns + thread % quads * k_flat_own;
  if (row >= p.a.outer || column >= p.b.outer)
    return;
  const auto batch = static_cast<std::int64_t>(blockIdx.z);
  const T* const left = p.a.data + batch * p.a.batch_stride + row * p.a.outer_stride;
  const T* const right = p.b.data + batch * p.b.batch_stride + column * p.b.outer_stride;
  const int real = p.b.outer - column;  // columns from there on

  T down[depth];
  Pack across[depth];
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    const bool inside = k < p.depth;
    down[k] = left[inside ? k * p.a.depth_stride : 0];
    const T* const from = right + (inside ? k * p.b.depth_stride : 0);
    if (vectors) {
      across[k] = *reinterpret_cast<const Pack*>(from);
      continue;
    }
#pragma unroll
    for (int j = 0; j < k_flat_own; ++j)
      across[k].at[j] = from[j < real ? j * p.b.outer_stride : 0];
  }
  const std::int64_t at = batch * p.c_batch + row * p.c_row + column;
  bool masked[k_flat_own];
#pragma unroll
  for (int j = 0; j < k_flat_own; ++j)
    masked[j] = j < real && is_masked(p, at + j);
  Acc sums[k_flat_own] = {};
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    if (k >= p.depth)
      break;
#pragma unroll
    for (int j = 0; j < k_flat_own; ++j)
      sums[j] += static_cast<Acc>(down[k]) * static_cast<Acc>(across[k].at[j]);
  }
  T* const to = p.c + at;
#pragma unroll
  for (int j = 0; j < k_flat_own; ++j) {
    if (j >= real)
      break;
    const Acc bias = p.bias != nullptr ? static_cast<Acc>(p.bias[column + j]) : Acc(0);
    to[j] = finished(p, sums[j], p.accumulate ? static_cast<Acc>(to[j]) : Acc(0), bias, masked[j]);
  }
}

}  // namespace

template <class T>
void launch_flat_product(const Queue& queue, const SmallProduct<T>& p, std::int64_t batch) {
  const auto tiles = [](int extent, int tile) { return static_cast<unsigned>((extent + tile - 1) / tile); };
  const dim3 grid(tiles(p.b.outer, k_flat_columns), tiles(p.a.outer, k_flat_rows), static_cast<unsigned>(batch));
  const auto whole = [](std::int64_t n) { return n % k_flat_own == 0; };
  const bool vectors = p.b.outer_stride == 1 && whole(p.b.outer) && whole(p.b.depth_stride) &&
                       whole(p.b.batch_stride) && starts_neighbours<T, k_flat_own>(p.b.data);
  if (p.depth <= k_flat_depth / 4)
    flat_product_kernel<k_flat_depth / 4><<<grid, k_flat_block, 0, stream_of(queue)>>>(p, vectors);
  else
    flat_product_kernel<k_flat_depth><<<grid, k_flat_block, 0, stream_of(queue)>>>(p, vectors);
  check_early_launch("small_product", stream_of(queue));
}

template void launch_flat_product(const Queue&, const SmallProduct<float>&, std::int64_t);
template void launch_flat_product(const Queue&, const SmallProduct<double>&, std::int64_t);
template void launch_flat_product(const Queue&, const SmallProduct<Half>&, std::int64_t);
template void launch_flat_product(const Queue&, const SmallProduct<BFloat16>&, std::int64_t);

}  // namespace sluice::detail
