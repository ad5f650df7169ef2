#include <algorithm>
#include <type_traits>

#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/small_product.h>

namespace sluice::detail {
namespace {

constexpr int k_tile = 16;  // of a block: as many rows, columns, and terms at once

/// Sums wrap: signed or not is all the same then.
template <class U>
struct IntegerProduct {
  GemmProblem p;
  std::int64_t row_tiles, column_tiles;

  __device__ U a(std::int64_t batch, std::int64_t row, std::int64_t k) const {
    return static_cast<const U*>(p.a.data)[batch * p.a.batch + row * p.a.row + k * p.a.column];
  }
  __device__ U b(std::int64_t batch, std::int64_t k, std::int64_t column) const {
    return static_cast<const U*>(p.b.data)[batch * p.b.batch + k * p.b.row + column * p.b.column];
  }
  __device__ U& c(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return static_cast<U*>(p.c.data)[batch * p.c.batch + row * p.c.row + column];
  }
};

template <class U>
__global__ void __launch_bounds__(k_tile* k_tile) integer_product_kernel(IntegerProduct<U> product) {
  using Sum = std::conditional_t<sizeof(U) == 8, std::uint64_t, std::uint32_t>;
  __shared__ Sum left[k_tile][k_tile + 1], right[k_tile][k_tile + 1];
  const int down = static_cast<int>(threadIdx.x) / k_tile, along = static_cast<int>(threadIdx.x) % k_tile;
  const GemmProblem& p = product.p;
  const std::int64_t tiles = p.batch * product.row_tiles * product.column_tiles;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t batch = tile / (product.row_tiles * product.column_tiles);
    const std::int64_t row = tile / product.column_tiles % product.row_tiles * k_tile + down;
    const std::int64_t column = tile % product.column_tiles * k_tile + along;
    Sum sum = 0;
    for (std::int64_t k = 0; k < p.k; k += k_tile) {
      left[down][along] = row < p.m && k + along < p.k ? product.a(batch, row, k + along) : 0;
      right[down][along] = k + down < p.k && column < p.n ? product.b(batch, k + down, column) : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < k_tile; ++i)
        sum += left[down][i] * right[i][along];
      __syncthreads();
    }
    if (row < p.m && column < p.n)
      product.c(batch, row, column) = static_cast<U>(sum);
  }
}

}  // namespace

void integer_product_gpu(const Queue& queue, const GemmProblem& p) {
  const auto tiles = [](std::int64_t extent) { return (extent + k_tile - 1) / k_tile; };
  by_element_size(size_of(p.dtype), [&]<class U>() {
    const IntegerProduct<U> product{p, tiles(p.m), tiles(p.n)};
    const std::int64_t blocks = std::min<std::int64_t>(p.batch * product.row_tiles * product.column_tiles, 65536);
    integer_product_kernel<<<static_cast<unsigned>(blocks), k_tile * k_tile, 0, stream_of(queue)>>>(product);
  });
  check_launch("integer_product");
}

}  // namespace sluice::detail
