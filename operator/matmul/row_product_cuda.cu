#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/matmul/row_product.h>

namespace sluice::detail {
namespace {

// A warp has a column. Its lanes read b in vectors, each every 32nd, and x as often, from the nearest cache.
constexpr int k_vector = 16;  // bytes
constexpr int k_most_rows = 4;
constexpr int k_warps = 4;  // of a block: little is left for few blocks at the end

template <class T>
struct RowProduct {
  const T *a, *b, *bias;
  T* c;
  std::int64_t a_row, b_column, c_row;
  std::int32_t n, vectors;  // of a column
  bool relu, accumulate;
};

/// Adds a vector's products of each row to the lane's sums.
template <class T, int rows>
__device__ void add_products(
    const RowProduct<T>& p, const Neighbours<T, k_vector / sizeof(T)>& b, std::int32_t at, Compute<T> (&sums)[rows]) {
  constexpr int V = k_vector / static_cast<int>(sizeof(T));
  using Some = Neighbours<T, V>;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const Some a = reinterpret_cast<const Some*>(p.a + row * p.a_row)[at];
#pragma unroll
    for (int j = 0; j < V; ++j)
      sums[row] += static_cast<Compute<T>>(a.at[j]) * static_cast<Compute<T>>(b.at[j]);
  }
}

template <class T, int rows>
__global__ void __launch_bounds__(32 * k_warps) row_product_kernel(RowProduct<T> p) {
  constexpr int V = k_vector / static_cast<int>(sizeof(T)), k_ahead = 4;
  constexpr int k_lines = 128 / k_vector;  // vectors of a line of the cache
  using Some = Neighbours<T, V>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto column = static_cast<std::int32_t>(blockIdx.x) * k_warps + static_cast<int>(threadIdx.x) / 32;
  const bool there = column < p.n;
  const Some* const b = reinterpret_cast<const Some*>(p.b + (there ? column : 0) * p.b_column);
  for (std::int32_t at = lane * k_lines; at < p.vectors; at += 32 * k_lines)
    fetch_line(b + at);
  start_early();
  if (!there)
    return;
  Compute<T> sums[rows] = {};
  std::int32_t at = lane;
  for (; at + (k_ahead - 1) * 32 < p.vectors; at += k_ahead * 32) {
    Some several[k_ahead];
#pragma unroll
    for (int i = 0; i < k_ahead; ++i)
      several[i] = b[at + 32 * i];
#pragma unroll
    for (int i = 0; i < k_ahead; ++i)
      add_products<T, rows>(p, several[i], at + 32 * i, sums);
  }
  for (; at < p.vectors; at += 32)
    add_products<T, rows>(p, b[at], at, sums);
#pragma unroll
  for (int row = 0; row < rows; ++row) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2)
      sums[row] += __shfl_xor_sync(k_whole_warp, sums[row], apart);
    if (lane != row)
      continue;
    T* const to = p.c + row * p.c_row + column;
    Compute<T> sum = sums[row];
    if (p.accumulate)
      sum += static_cast<Compute<T>>(*to);
    if (p.bias != nullptr)
      sum += static_cast<Compute<T>>(p.bias[column]);
    *to = T(p.relu && sum <= Compute<T>(0) ? Compute<T>(0) : sum);  // NaN stays
  }
}

template <class T, int rows>
void launch(const Queue& queue, const RowProduct<T>& p) {
  const cudaStream_t stream = stream_of(queue);
  const auto blocks = static_cast<unsigned>((p.n + k_warps - 1) / k_warps);
  row_product_kernel<T, rows><<<blocks, 32 * k_warps, 0, stream>>>(p);
  check_early_launch("row_product", stream);
}

bool is_whole(const void* data, std::int64_t stride, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % k_vector == 0 && stride * bytes % k_vector == 0 && stride >= 0;
}

}  // namespace

bool is_row_product(const GemmProblem& p) noexcept {
  // Measured on an H100: a million columns of 256 bytes take a warp each two to six times as long as the library, one
  // of a mebibyte four times as long, as it is not shared among warps.
  constexpr std::int64_t k_least_bytes = 1024, k_most_bytes = 128 * 1024, k_most = std::int64_t{1} << 30;
  const auto bytes = static_cast<std::int64_t>(size_of(p.dtype)), of_column = p.k * bytes;
  const bool rows = p.batch == 1 && p.m <= k_most_rows && p.n < k_most && of_column % k_vector == 0 &&
                    of_column >= k_least_bytes && of_column <= k_most_bytes;
  const bool plain = p.row_bias == nullptr && p.mask == nullptr && !p.c_in_accumulator;
  return rows && plain && is_floating(p.dtype) && p.b.row == 1 && is_whole(p.b.data, p.b.column, bytes) &&
         (p.a.column == 1 && is_whole(p.a.data, p.m == 1 ? 0 : p.a.row, bytes)) && (p.c.column == 1 || p.n == 1);
}

void row_product_gpu(const Queue& queue, const GemmProblem& p) {
  by_floating(p.dtype, [&]<class T>() {
    const RowProduct<T> product{
        .a = static_cast<const T*>(p.a.data),
        .b = static_cast<const T*>(p.b.data),
        .bias = static_cast<const T*>(p.column_bias),
        .c = static_cast<T*>(p.c.data),
        .a_row = p.a.row,
        .b_column = p.b.column,
        .c_row = p.c.row,
        .n = static_cast<std::int32_t>(p.n),
        .vectors = static_cast<std::int32_t>(p.k * static_cast<std::int64_t>(sizeof(T)) / k_vector),
        .relu = p.relu,
        .accumulate = p.accumulate};
    switch (p.m) {
      case 1:
        return launch<T, 1>(queue, product);
      case 2:
        return launch<T, 2>(queue, product);
      case 3:
        return launch<T, 3>(queue, product);
      default:
        return launch<T, k_most_rows>(queue, product);
    }
  });
}

}  // namespace sluice::detail
