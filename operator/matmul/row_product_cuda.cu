#include <algorithm>
#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/multiprocessors.h>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/matmul/row_product.h>

namespace sluice::detail {
namespace {

// A warp has one or two columns, and then the next ones. Its lanes read them in vectors, each every 32nd, and x as
// often, from the nearest cache.
constexpr int k_vector = 16;  // bytes
constexpr int k_most_rows = 4;
constexpr int k_warps = 4;                                      // of a block: little is left for few blocks at the end
constexpr std::int64_t k_most_blocks = k_multiprocessors * 16;  // what a large GPU has room for

template <class T>
struct RowProduct {
  const T *a, *b, *bias;
  T* c;
  std::int64_t a_row, b_column, c_row;
  std::int32_t n, vectors;  // of a column
  bool relu, accumulate;
};

/// What a lane reads of some columns, and adds up with each row.
template <class T, int rows>
struct RowSums {
  static constexpr int V = k_vector / static_cast<int>(sizeof(T));
  static constexpr int k_columns = rows == 1 ? 1 : 2;
  static constexpr int k_ahead = 4 / k_columns;  // vectors of each column that are on their way
  using Some = Neighbours<T, V>;
  Compute<T> at[k_columns][rows] = {};

  __device__ static const Some* vectors(const T* data) { return reinterpret_cast<const Some*>(data); }

  /// With the vectors from `first` on, every 32nd.
  __device__ void add(const RowProduct<T>& p, const T* const (&columns)[k_columns], std::int32_t first) {
    Some several[k_ahead][k_columns];
#pragma unroll
    for (int i = 0; i < k_ahead; ++i) {
#pragma unroll
      for (int c = 0; c < k_columns; ++c)
        several[i][c] = first + 32 * i < p.vectors ? vectors(columns[c])[first + 32 * i] : Some{};
    }
#pragma unroll
    for (int i = 0; i < k_ahead; ++i) {
      if (first + 32 * i >= p.vectors)
        break;  // nothing is not multiplied: what x has there may be NaN
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        const Some a = vectors(p.a + row * p.a_row)[first + 32 * i];
#pragma unroll
        for (int c = 0; c < k_columns; ++c) {
#pragma unroll
          for (int j = 0; j < V; ++j)
            at[c][row] += static_cast<Compute<T>>(a.at[j]) * static_cast<Compute<T>>(several[i][c].at[j]);
        }
      }
    }
  }

  /// Over all lanes, and what follows: lane i writes the i-th result.
  __device__ void finish(const RowProduct<T>& p, std::int32_t column, int lane) {
#pragma unroll
    for (int i = 0; i < k_columns * rows; ++i) {
      Compute<T> sum = at[i / rows][i % rows];
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(k_whole_warp, sum, apart);
      if (lane != i || column + i / rows >= p.n)
        continue;
      T* const to = p.c + i % rows * p.c_row + column + i / rows;
      if (p.accumulate)
        sum += static_cast<Compute<T>>(*to);
      if (p.bias != nullptr)
        sum += static_cast<Compute<T>>(p.bias[column + i / rows]);
      *to = T(p.relu && sum <= Compute<T>(0) ? Compute<T>(0) : sum);  // NaN stays
    }
  }
};

template <class T, int rows>
__global__ void __launch_bounds__(32 * k_warps) row_product_kernel(RowProduct<T> p) {
  using Sums = RowSums<T, rows>;
  constexpr std::int32_t k_lines = 128 / k_vector;  // vectors of a line of the cache
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto warp = static_cast<std::int32_t>(blockIdx.x) * k_warps + static_cast<int>(threadIdx.x) / 32;
  const auto all_columns = static_cast<std::int32_t>(gridDim.x) * k_warps * Sums::k_columns;
  const std::int32_t first = warp * Sums::k_columns;
  const T* columns[Sums::k_columns];
  const auto choose = [&](std::int32_t column) {
#pragma unroll
    for (int c = 0; c < Sums::k_columns; ++c)
      columns[c] = p.b + static_cast<std::int64_t>(column + c < p.n ? column + c : p.n - 1) * p.b_column;
  };
  choose(first);
#pragma unroll
  for (int c = 0; c < Sums::k_columns; ++c) {
    for (std::int32_t at = lane * k_lines; at < p.vectors; at += 32 * k_lines)
      fetch_line(Sums::vectors(columns[c]) + at);
  }
  start_early();
  for (std::int32_t column = first; column < p.n; column += all_columns) {
    choose(column);
    Sums sums;
    for (std::int32_t at = lane; at < p.vectors; at += 32 * Sums::k_ahead)
      sums.add(p, columns, at);
    sums.finish(p, column, lane);
  }
}

template <class T, int rows>
void launch(const Queue& queue, const RowProduct<T>& p) {
  const cudaStream_t stream = stream_of(queue);
  constexpr std::int64_t k_of_block = k_warps * RowSums<T, rows>::k_columns;
  const auto blocks = static_cast<unsigned>(std::min((p.n + k_of_block - 1) / k_of_block, k_most_blocks));
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
