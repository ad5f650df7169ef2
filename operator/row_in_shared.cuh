#pragma once

// Rows that are too long for registers, each in the shared memory of its block: memory is read once, where row_kernel()
// looks for a row a second time in a cache that the rows of all blocks together overrun.
#include <cstdint>

#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/tensor_core.cuh>
#include <sluice/operator/row_kernel.cuh>

namespace sluice::detail {

inline constexpr int k_shared_row_block = 512;
/// What leaves room for two blocks a multiprocessor of sm_90, so that one reads while the other computes.
inline constexpr int k_shared_row_bytes = 112 << 10;

/// join_block(), where a join is dear: the lanes of each warp join what the warps have.
template <int Warps, class A, class Join>
__device__ A join_block_by_lanes(A value, const Join& join) {
  value = join_warp(value, join);
  __shared__ A totals[Warps];
  if (threadIdx.x % k_warp == 0)
    totals[threadIdx.x / k_warp] = value;
  __syncthreads();
  value = totals[threadIdx.x % Warps];
#pragma unroll
  for (int lanes = Warps / 2; lanes > 0; lanes /= 2)
    value = join(value, shuffle_xor(value, lanes));
  __syncthreads();  // the next call writes again
  return value;
}

/// What an operator reads of a row beside its elements, known(row, offset, once), which finish_known() gets in front of
/// what finish() does: asked for while the elements are on their way, and there before anything of the row is written.
template <class R>
concept KnowsAhead = requires(const R& op) {
  op.known(std::int64_t{}, std::int64_t{}, true);
};

inline constexpr int k_row_parts = 4;  // that a thread fetches one behind the other
__device__ inline void await_row_part(int part) {
  static_assert(k_row_parts == 4);
  part == 0 ? await_fetches<3>() : part == 1 ? await_fetches<2>() : part == 2 ? await_fetches<1>() : await_fetches<0>();
}

/// Each thread fetches, and looks at, vectors of its own: none waits for another but to join.
template <int V, class R>
__global__ void __launch_bounds__(k_shared_row_block, 2) row_in_shared_kernel(R op, Rows rows) {
  start_early();
  using Raw = RowVectors<typename R::Element, 1, V>;
  static_assert(R::k_reads == 1 && R::k_joined && sizeof(Raw) == k_piece_bytes);
  Raw* const kept = reinterpret_cast<Raw*>(shared_room<k_shared_row_bytes>());
  const int lane = static_cast<int>(threadIdx.x), vectors = static_cast<int>(rows.n / V);
  constexpr int k_round = k_row_parts * k_shared_row_block;
  const int part_vectors = (vectors + k_round - 1) / k_round * k_shared_row_block;
  for (std::int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const std::int64_t offset = rows.offset(row);
    const Raw* const from = reinterpret_cast<const Raw*>(op.in[0] + offset);
#pragma unroll 1
    for (int part = 0, i = lane; part < k_row_parts; ++part) {
#pragma unroll 4
      for (const int end = min((part + 1) * part_vectors, vectors); i < end; i += k_shared_row_block)
        fetch_piece(kept + i, from + i, k_piece_bytes);
      end_fetches();
    }
    const auto known = [&] {
      if constexpr (KnowsAhead<R>) {
        return op.known(row, offset, lane == 0);
      } else {
        return 0;
      }
    }();
    auto total = op.start(offset);
#pragma unroll 1
    for (int part = 0, i = lane; part < k_row_parts; ++part) {
      await_row_part(part);
#pragma unroll 2
      for (const int end = min((part + 1) * part_vectors, vectors); i < end; i += k_shared_row_block)
        op.take(total, widened(whole_vector(kept + i)), static_cast<std::int64_t>(i) * V);
    }
    total = join_block_by_lanes<k_shared_row_block / k_warp>(
        total, [&op](const auto& a, const auto& b) { return op.join(a, b); });
    const auto told = [&] {
      if constexpr (KnowsAhead<R>) {
        return op.finish_known(known, row, total, lane == 0);
      } else {
        return op.finish(row, offset, total, lane == 0);
      }
    }();
    if constexpr (R::k_writes) {
#pragma unroll 2
      for (int i = lane; i < vectors; i += k_shared_row_block)
        store_row<V>(op, told, widened(whole_vector(kept + i)), offset, 1, i);
    }
  }
}

/// Enqueues an operator over rows that registers do not hold but shared memory does; false where these are no such
/// rows. Which they are is a matter of their shape, of where they begin and of the GPU: what is added up in one
/// order here is so by every operator that asks. Throws CudaError naming `name` where the launch is refused.
template <class R>
bool launch_rows_in_shared(const char* name, const R& op, const Rows& rows, int gpu, cudaStream_t stream) {
  using T = typename R::Element;
  constexpr int V = k_neighbours<T>, k_joined = 1 << 10;
  const std::int64_t bytes = rows.n * static_cast<std::int64_t>(sizeof(T));
  if (rows.count == 0 || bytes > k_shared_row_bytes || bytes <= 8 * k_group_block * k_piece_bytes ||
      !op.in_vectors(rows, V) || !has_shared(gpu, k_shared_row_bytes + k_joined))
    return false;
  allow_shared<row_in_shared_kernel<V, R>, k_shared_row_bytes>(gpu);
  const unsigned blocks = blocks_for_groups(rows.count, k_group_block);
  row_in_shared_kernel<V, R><<<blocks, k_shared_row_block, static_cast<std::size_t>(bytes), stream>>>(op, rows);
  check_early_launch(name, stream);
  return true;
}

}  // namespace sluice::detail
