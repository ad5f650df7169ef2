#include <cstdint>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/small_product.cuh>
#include <sluice/operator/matmul/small_product.h>

namespace sluice::detail {
namespace {

// A block computes a tile of c of 32 or 16 rows. Its threads are teams, each of which adds up its part of every stretch
// of k, so that few tiles keep many threads busy; in a team each thread has 4 by 4 results.
constexpr int k_columns = 32, k_own = 4;
constexpr int k_pitch = k_columns + 4;     // threads of a warp meet different banks, and rows stay aligned for vectors
constexpr std::int64_t k_few_tiles = 256;  // of 32 rows: a large GPU has room for more blocks

template <int rows>
constexpr int k_members = (rows / k_own) * (k_columns / k_own);
/// How many teams there are, and how far each goes along k at once: what fits into the memory that a block shares.
template <class Acc>
constexpr int k_teams = sizeof(Acc) > 4 ? 4 : 8;
template <class Acc>
constexpr int k_depth = sizeof(Acc) > 4 ? 8 : 16;
template <int rows, class T>
constexpr int k_threads = k_teams<Compute<T>>* k_members<rows>;

// A thread's share of a team's part of a stretch: every few elements along one axis. Neighbours in memory belong to
// neighbouring threads.
template <int outer, int members, class T>
class Share {
 public:
  using Acc = Compute<T>;
  static constexpr int depth = k_depth<Acc>, loads = outer * depth / members;

  __device__ Share(const Operand<T>& operand, int first, int begin, int member, int end)
      : operand_(operand), end_(end), by_depth_(operand.depth_stride == 1) {
    outer_ = by_depth_ ? member / depth : member % outer;
    k_ = by_depth_ ? member % depth : member / outer;
    place_ = k_ * k_pitch + outer_;
    outer_ += first;
    k_ += begin;
    data_ = operand.data + outer_ * operand.outer_stride + k_ * operand.depth_stride;
    step_ = by_depth_ ? members / depth * operand.outer_stride : members / outer * operand.depth_stride;
  }

  // What lies outside is read as the first element and counts as 0: all loads are under way at once.
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      inside_[i] = by_depth_ ? k_ < end_ && outer_ + i * (members / depth) < operand_.outer
                             : outer_ < operand_.outer && k_ + i * (members / outer) < end_;
      values_[i] = *(inside_[i] ? data_ + i * step_ : operand_.data);
    }
  }
  __device__ void advance(int by) {
    k_ += by;
    data_ += by * operand_.depth_stride;
  }
  __device__ void keep(Acc* part) const {
#pragma unroll
    for (int i = 0; i < loads; ++i)
      part[place_ + i * (by_depth_ ? members / depth : members / outer * k_pitch)] =
          inside_[i] ? static_cast<Acc>(values_[i]) : Acc(0);
  }

 private:
  const Operand<T>& operand_;
  int end_;
  bool by_depth_;
  int outer_, k_, place_;
  const T* data_;
  std::int64_t step_;
  T values_[loads];
  bool inside_[loads];
};

template <class Acc>
__device__ void read(const Acc* from, Acc (&values)[k_own]) {
  constexpr int wide = k_neighbours<Acc> < k_own ? k_neighbours<Acc> : k_own;
#pragma unroll
  for (int i = 0; i < k_own / wide; ++i) {
    const auto pack = reinterpret_cast<const Neighbours<Acc, wide>*>(from)[i];
#pragma unroll
    for (int j = 0; j < wide; ++j)
      values[i * wide + j] = pack.at[j];
  }
}

// A team's part of a stretch, as a thread adds it up.
template <bool add_rows, int depth, class Acc>
__device__ void multiply(const Acc* left, const Acc* right, Acc (&sums)[k_own][k_own], Acc (&row_sums)[k_own]) {
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    Acc down[k_own], along[k_own];
    read(left + k * k_pitch, down);
    read(right + k * k_pitch, along);
#pragma unroll
    for (int i = 0; i < k_own; ++i) {
      if constexpr (add_rows)
        row_sums[i] += down[i];
#pragma unroll
      for (int j = 0; j < k_own; ++j)
        sums[i][j] += down[i] * along[j];
    }
  }
}

// What all teams added up, in their order, and what follows the sums.
template <int rows, class T>
__device__ void write(
    const SmallProduct<T>& p, const Compute<T>* parts, int first_row, int first_column, std::int64_t batch) {
  using Acc = Compute<T>;
  constexpr int part = rows * k_columns;
  for (int place = static_cast<int>(threadIdx.x); place < part; place += k_threads<rows, T>) {
    const int row = first_row + place / k_columns, column = first_column + place % k_columns;
    if (row >= p.a.outer || column >= p.b.outer)
      continue;
    Acc sum = parts[place];
#pragma unroll
    for (int other = 1; other < k_teams<Acc>; ++other)
      sum += parts[other * part + place];
    const std::int64_t at = batch * p.c_batch + row * p.c_row + column;
    T* const to = p.c + at;
    const Acc bias = p.bias != nullptr ? static_cast<Acc>(p.bias[column]) : Acc(0);
    *to = finished(p, sum, p.accumulate ? static_cast<Acc>(*to) : Acc(0), bias, is_masked(p, at));
  }
}

// `add_rows`: the sums of a's rows as well, by the blocks of the first columns.
template <int rows, bool add_rows, class T>
__global__ void __launch_bounds__((k_threads<rows, T>)) small_product_kernel(SmallProduct<T> p) {
  start_early();
  using Acc = Compute<T>;
  constexpr int teams = k_teams<Acc>, depth = k_depth<Acc>, stretch = depth * k_pitch, part = rows * k_columns;
  constexpr int members = k_members<rows>;
  constexpr int room = teams * (2 * stretch > part ? 2 * stretch : part);
  alignas(16) __shared__ Acc shared[room];
  __shared__ Acc row_totals[add_rows ? teams * rows : 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int team = thread / members, member = thread % members;
  const int down = member / (k_columns / k_own) * k_own, along = member % (k_columns / k_own) * k_own;
  const int first_row = static_cast<int>(blockIdx.y) * rows, first_column = static_cast<int>(blockIdx.x) * k_columns;
  const auto batch = static_cast<std::int64_t>(blockIdx.z);
  p.a.data += batch * p.a.batch_stride;
  p.b.data += batch * p.b.batch_stride;
  Acc* const left = shared + 2 * team * stretch;
  Acc* const right = left + stretch;

  Acc sums[k_own][k_own] = {}, row_sums[k_own] = {};
  Share<rows, members, T> next_left(p.a, first_row, team * depth, member, p.depth);
  Share<k_columns, members, T> next_right(p.b, first_column, team * depth, member, p.depth);
  next_left.load();
  next_right.load();
  for (int begin = 0; begin < p.depth; begin += teams * depth) {
    next_left.keep(left);
    next_right.keep(right);
    __syncthreads();
    if (begin + teams * depth < p.depth) {
      next_left.advance(teams * depth);
      next_right.advance(teams * depth);
      next_left.load();
      next_right.load();
    }
    multiply<add_rows, depth>(left + down, right + along, sums, row_sums);
    __syncthreads();
  }

  // The teams' parts meet in the memory that held the stretches.
#pragma unroll
  for (int i = 0; i < k_own; ++i) {
#pragma unroll
    for (int j = 0; j < k_own; ++j)
      shared[team * part + (down + i) * k_columns + along + j] = sums[i][j];
    if (add_rows && along == 0)
      row_totals[team * rows + down + i] = row_sums[i];
  }
  __syncthreads();
  write<rows>(p, shared, first_row, first_column, batch);
  if (add_rows && blockIdx.x == 0 && thread < rows && first_row + thread < p.a.outer) {
    Acc sum = row_totals[thread];
    for (int other = 1; other < teams; ++other)
      sum += row_totals[other * rows + thread];
    p.row_sums[first_row + thread] = T(sum);
  }
}

template <int rows, class T>
void launch(const Queue& queue, const SmallProduct<T>& product, const GemmProblem& p, bool add_rows) {
  const auto tiles = [](std::int64_t extent, int tile) { return static_cast<unsigned>((extent + tile - 1) / tile); };
  const dim3 grid(tiles(p.n, k_columns), tiles(p.m, rows), static_cast<unsigned>(p.batch));
  if (add_rows)
    small_product_kernel<rows, true><<<grid, k_threads<rows, T>, 0, stream_of(queue)>>>(product);
  else
    small_product_kernel<rows, false><<<grid, k_threads<rows, T>, 0, stream_of(queue)>>>(product);
  check_early_launch("small_product", stream_of(queue));
}

}  // namespace

void small_product_gpu(const Queue& queue, const GemmProblem& p, void* row_sums) {
  by_floating(p.dtype, [&]<class T>() {
    const SmallProduct<T> product{
        {static_cast<const T*>(p.a.data), p.a.row, p.a.column, p.a.batch, static_cast<int>(p.m)},
        {static_cast<const T*>(p.b.data), p.b.column, p.b.row, p.b.batch, static_cast<int>(p.n)},
        static_cast<T*>(p.c.data),
        p.c.row,
        p.c.batch,
        static_cast<int>(p.k),
        static_cast<const T*>(p.column_bias),
        static_cast<T*>(row_sums),
        static_cast<const T*>(p.mask),
        p.relu,
        p.accumulate};
    const auto tiles = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
    if (p.k <= k_flat_depth && row_sums == nullptr)
      launch_flat_product(queue, product, p.batch);
    else if (tiles(p.m, k_split_tile) * tiles(p.n, k_split_tile) * p.batch <= k_few_tiles)
      launch_split_product(queue, product, p.batch);
    else if (tiles(p.m, 32) * tiles(p.n, k_columns) * p.batch <= k_few_tiles)
      launch<16>(queue, product, p, row_sums != nullptr);
    else
      launch<32>(queue, product, p, row_sums != nullptr);
  });
}

}  // namespace sluice::detail
