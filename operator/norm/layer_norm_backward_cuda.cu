// Rows that registers hold, read once: each group of threads takes one after the other and sums up, of the elements
// that are its own, what the gradients of gamma and beta are made of. Then the sums of all blocks are added, in their
// order.
#include <algorithm>

#include <sluice/operator/library/multiprocessors.h>
#include <sluice/operator/norm/layer_norm_backward_cuda.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

constexpr int k_most_kept = 4;  // vectors of a row that a thread has
static_assert(k_norm_vector == k_neighbours<float>);
static_assert(k_most_in_norm_backward == k_most_kept * k_norm_vector * k_group_block);

// Sums of a block: of gamma's gradients n numbers, then of beta's as many.
template <class C>
struct ParameterSums {
  C* at;
  bool beta;

  __device__ C* of_block(std::int64_t n) const { return at + blockIdx.x * (beta ? 2 : 1) * n; }
};

// Warps add what they have to shared memory one after the other.
template <int V, int P, class C>
__device__ void join_warps(const Group& group, int n, const C (&gamma)[P][V], const C (&beta)[P][V], C* to, bool both) {
  constexpr int k_columns = P * V * k_warp;
  __shared__ C sums[2][k_columns];
  for (int i = static_cast<int>(threadIdx.x); i < k_columns; i += k_group_block)
    sums[0][i] = sums[1][i] = C{0};
  for (int warp = 0; warp < k_group_block / k_warp; ++warp) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) / k_warp != warp)
      continue;
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const int column = (group.lane + p * k_warp) * V + j;
        sums[0][column] += gamma[p][j];
        sums[1][column] += beta[p][j];
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += k_group_block) {
    to[i] = sums[0][i];
    if (both)
      to[n + i] = sums[1][i];
  }
}

// Of rows that whole blocks take each column is one thread's.
template <int V, int P, class C>
__device__ void write_own(const Group& group, int n, const C (&gamma)[P][V], const C (&beta)[P][V], C* to, bool both) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (const int column = (group.lane + p * k_group_block) * V + j; column < n) {
        to[column] = gamma[p][j];
        if (both)
          to[n + column] = beta[p][j];
      }
    }
  }
}

// Blocks a multiprocessor has room for, of threads that keep sums for so many elements of a row.
constexpr int blocks_beside(int kept) {
  return kept <= 8 ? 4 : kept <= 16 ? 3 : 2;
}

// What each thread fetches of the next row, in places of its own, while it works on this one; W threads a row.
template <int V, int P, int W, class T>
class RowsAhead {
 public:
  using Row = NormBackwardRow<T, NormParametersAre::vectors>;
  static constexpr int k_stages = 2, k_bytes = k_stages * P * 2 * k_group_block * k_piece_bytes;

  __device__ RowsAhead(const Row& of, int vectors)
      : of_(of),
        room_(shared_room<k_bytes>() + threadIdx.x * k_piece_bytes),
        lane_(static_cast<int>(threadIdx.x) % W),
        vectors_(vectors) {}

  __device__ void fetch(std::int64_t offset, int stage) const {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (const int i = lane_ + p * W; i < vectors_)
        of_.template fetch<V>(piece(stage, p, 0), piece(stage, p, 1), offset, i);
    }
  }
  /// dy and x as they have arrived.
  __device__ NormValues<T, V> values(int stage, int p) const {
    NormValues<T, V> there;
    there.dy = *reinterpret_cast<const Neighbours<T, V>*>(piece(stage, p, 0));
    there.x = *reinterpret_cast<const Neighbours<T, V>*>(piece(stage, p, 1));
    of_.widen(there);
    return there;
  }

 private:
  __device__ unsigned char* piece(int stage, int p, int which) const {
    return room_ + ((stage * P + p) * 2 + which) * k_group_block * k_piece_bytes;
  }

  const Row& of_;
  unsigned char* room_;
  int lane_, vectors_;
};

template <int V, class T, class C>
__device__ void add_parameters(const NormValues<T, V>& values, const NormRowAt<C>& at, C (&gamma)[V], C (&beta)[V]) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const C dy = static_cast<C>(values.dy.at[j]);
    gamma[j] += dy * ((static_cast<C>(values.x.at[j]) - at.mean) * at.inv_std);
    beta[j] += dy;
  }
}

template <int V, int P, int W, class T, class Row>
__global__ void __launch_bounds__(k_group_block, blocks_beside(P* V))
    norm_backward_ahead(Row of, Rows rows, ParameterSums<Compute<T>> partial) {
  using C = Compute<T>;
  const Group group(W);
  const int n = static_cast<int>(rows.n), vectors = n / V;
  const RowsAhead<V, P, W, T> ahead(of, vectors);
  C gamma[P][V] = {}, beta[P][V] = {};
  std::int64_t row = group.index;
  NormRowAt<C> next = row < rows.count ? of.at(row) : NormRowAt<C>{};
  if (row < rows.count)
    ahead.fetch(row * rows.pitch, 0);
  end_fetches();
  for (int stage = 0; row < rows.count; stage ^= 1) {
    const std::int64_t offset = row * rows.pitch;
    const NormRowAt<C> at = next;
    row += group.count;
    if (row < rows.count) {
      ahead.fetch(row * rows.pitch, stage ^ 1);
      next = of.at(row);
    }
    end_fetches();
    typename Row::template Beside<V> beside[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (const int i = group.lane + p * W; P < k_most_kept && i < vectors)
        beside[p] = of.template beside<V>(offset, i);
    }
    await_fetches<1>();
    NormSums<C> sums{};
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int i = group.lane + p * W;
      if (i >= vectors)
        continue;
      const NormValues<T, V> values = ahead.values(stage, p);
      of.add(sums, values, at, i);
      add_parameters(values, at, gamma[p], beta[p]);
    }
    const NormSums<C> means = of.means(join_group(sums, W, [](const auto& a, const auto& b) { return joined(a, b); }));
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int i = group.lane + p * W;
      if (i >= vectors)
        continue;
      if (P == k_most_kept)  // there are no registers for it before
        beside[p] = of.template beside<V>(offset, i);
      of.give(ahead.values(stage, p), beside[p], at, means, offset, i);
    }
  }
  C* const to = partial.of_block(n);
  if constexpr (W == k_warp) {
    join_warps<V, P>(group, n, gamma, beta, to, partial.beta);
  } else {
    write_own<V, P>(group, n, gamma, beta, to, partial.beta);
  }
}

// Column sums of `blocks` rows of n numbers, `stride` apart: 32 columns a block, 8 threads for each.
template <class C>
__global__ void __launch_bounds__(k_group_block) join_blocks(
    const C* partial,
    std::int64_t blocks,
    std::int64_t stride,
    std::int64_t n,
    NormParameter gamma,
    NormParameter beta) {
  constexpr int k_beside = k_group_block / k_warp;
  __shared__ C sums[k_beside][k_warp];
  const int lane = static_cast<int>(threadIdx.x) % k_warp, below = static_cast<int>(threadIdx.x) / k_warp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * k_warp + lane;
  const NormParameter& to = blockIdx.y == 0 ? gamma : beta;
  C sum = 0;
  if (column < n) {
#pragma unroll 4
    for (std::int64_t block = below; block < blocks; block += k_beside)
      sum += partial[block * stride + blockIdx.y * n + column];
  }
  sums[below][lane] = sum;
  __syncthreads();
  if (below != 0 || column >= n)
    return;
#pragma unroll
  for (int k = 1; k < k_beside; ++k)
    sum += sums[k][lane];
  store_parameter(to.data, to.dtype, column, sum);
}

// As many blocks as a large GPU runs at once, each with rows that are worth the sums it leaves; by shape alone.
std::int64_t blocks_for_sums(const Rows& rows, int beside) {
  constexpr std::int64_t k_rows = 4;
  const std::int64_t groups = k_group_block / rows.width;
  return std::clamp<std::int64_t>(rows.count / (groups * k_rows), 1, k_multiprocessors * beside);
}

// What launches of one kind share.
template <class C>
struct AheadLaunch {
  Rows rows;
  ParameterSums<C> partial;
  std::int64_t blocks;
  const Queue& queue;
};

// False, and nothing done, where a GPU's blocks have less shared memory (those of capability 7.5: 64 KiB).
template <int V, int P, int W, class T, class Row>
bool launch_ahead(const Row& of, const AheadLaunch<Compute<T>>& how) {
  constexpr int k_bytes = RowsAhead<V, P, W, T>::k_bytes;
  constexpr int k_joined = W == k_warp ? 2 * P * V * k_warp * static_cast<int>(sizeof(Compute<T>)) : 1024;
  const int gpu = how.queue.device().index;
  if (!has_shared(gpu, k_bytes + k_joined))
    return false;
  allow_shared<norm_backward_ahead<V, P, W, T, Row>, k_bytes>(gpu);
  norm_backward_ahead<V, P, W, T>
      <<<static_cast<unsigned>(how.blocks), k_group_block, k_bytes, stream_of(how.queue)>>>(of, how.rows, how.partial);
  check_launch("layer_norm_backward");
  return true;
}

template <int V, class T, class Row>
bool launch_kept(const Row& of, int kept, const AheadLaunch<Compute<T>>& how) {
  const auto run = [&]<int W>() {
    if (kept == 1)
      return launch_ahead<V, 1, W, T>(of, how);
    if (kept == 2)
      return launch_ahead<V, 2, W, T>(of, how);
    return launch_ahead<V, k_most_kept, W, T>(of, how);
  };
  return how.rows.width == k_warp ? run.template operator()<k_warp>() : run.template operator()<k_group_block>();
}

template <class T>
bool launch(const NormBackward& norm, const NormSum& sum, const Queue& queue) {
  using C = Compute<T>;
  constexpr int V = k_neighbours<T>;
  const NormBackwardRow<T> any(norm);
  const NormBackwardSumRow<T> summed(norm, sum);
  Rows rows(norm.rows.at);
  rows.width = rows.n <= k_most_kept * V * k_warp ? k_warp : k_group_block;
  if (!any.in_vectors(norm.rows.at) || !any.by.vectors || rows.n > k_most_kept * V * k_group_block ||
      !summed.in_vectors())
    return false;
  const std::int64_t needed = (rows.n / V + rows.width - 1) / rows.width;
  const int kept = needed <= 2 ? static_cast<int>(needed) : k_most_kept;
  const bool beta = norm.beta_grad.data != nullptr;
  const std::int64_t blocks = blocks_for_sums(rows, blocks_beside(kept * V)), stride = (beta ? 2 : 1) * rows.n;
  const Workspace workspace(queue, sizeof(C) * static_cast<std::size_t>(blocks * stride));
  const AheadLaunch<C> how{rows, {workspace.as<C>(), beta}, blocks, queue};
  bool launched = false;
  if (sum.other == nullptr)
    launched = launch_kept<V, T>(NormBackwardRow<T, NormParametersAre::vectors>(norm), kept, how);
  else if constexpr (std::is_same_v<T, float>)
    launched = launch_kept<V, T>(summed, kept, how);
  if (!launched)
    return false;
  const dim3 grid(static_cast<unsigned>((rows.n + k_warp - 1) / k_warp), beta ? 2 : 1);
  join_blocks<<<grid, k_group_block, 0, stream_of(queue)>>>(
      how.partial.at, blocks, stride, rows.n, norm.gamma_grad, norm.beta_grad);
  check_launch("layer_norm_backward");
  return true;
}

}  // namespace

bool norm_backward_in_registers_gpu(const NormBackward& norm, const Queue& queue, const NormSum& sum) {
  const NormRows& rows = norm.rows;
  if (rows.count() == 0 || rows.at.n == 0 || rows.groups != 1 || rows.span != 1 || norm.gamma_grad.data == nullptr)
    return false;
  bool launched = false;
  by_floating(norm.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      launched = launch<T>(norm, sum, queue);
  });
  return launched;
}

}  // namespace sluice::detail
