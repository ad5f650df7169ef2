#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/small_product.cuh>

namespace sluice::detail {
namespace {

// A block has 8 by 8 results and loads a stretch of k for them at once; the lanes of a warp share that out, so that
// even 64 rows of ten results keep every part of a GPU busy. A warp has 4 by 2 of the results.
constexpr int k_stretch = 256, k_split_block = 256, k_split_pitch = k_stretch + 4;  // lanes meet different banks
constexpr int k_down = 4, k_across = 2, k_loads = k_split_tile * k_stretch / k_split_block;

// A thread's part of a stretch of one operand. Neighbours in memory belong to neighbouring threads.
template <class T>
class Part {
 public:
  using Acc = Compute<T>;

  __device__ Part(const Operand<T>& operand, int first) : by_depth_(operand.depth_stride == 1) {
    const int thread = static_cast<int>(threadIdx.x);
    outer_ = by_depth_ ? 0 : thread % k_split_tile;
    k_ = by_depth_ ? thread : thread / k_split_tile;
    place_ = outer_ * k_split_pitch + k_;
    outer_ += first;
  }
  // What lies outside is read as the first element and counts as 0: all loads are under way at once.
  __device__ void load(const Operand<T>& operand, int begin, int depth) {
    constexpr int beside = k_split_block / k_split_tile;
#pragma unroll
    for (int i = 0; i < k_loads; ++i) {
      const int outer = outer_ + (by_depth_ ? i : 0), k = begin + k_ + (by_depth_ ? 0 : i * beside);
      inside_[i] = outer < operand.outer && k < depth;
      values_[i] = operand.data[inside_[i] ? outer * operand.outer_stride + k * operand.depth_stride : 0];
    }
  }
  __device__ void keep(Acc* rows) const {
    constexpr int beside = k_split_block / k_split_tile;
#pragma unroll
    for (int i = 0; i < k_loads; ++i)
      rows[place_ + (by_depth_ ? i * k_split_pitch : i * beside)] = inside_[i] ? static_cast<Acc>(values_[i]) : Acc(0);
  }

 private:
  bool by_depth_;
  int outer_, k_, place_;
  T values_[k_loads];
  bool inside_[k_loads];
};

template <bool add_rows, class Acc>
__device__ void add_stretch(
    const Acc* left, const Acc* right, int stretch, Acc (&sums)[k_down * k_across], Acc (&row_sums)[k_down]) {
#pragma unroll 4
  for (int k = static_cast<int>(threadIdx.x) % k_warp; k < stretch; k += k_warp) {
    Acc across[k_across];
#pragma unroll
    for (int j = 0; j < k_across; ++j)
      across[j] = right[j * k_split_pitch + k];
#pragma unroll
    for (int i = 0; i < k_down; ++i) {
      const Acc down = left[i * k_split_pitch + k];
      if constexpr (add_rows)
        row_sums[i] += down;
#pragma unroll
      for (int j = 0; j < k_across; ++j)
        sums[i * k_across + j] += down * across[j];
    }
  }
}

// Joins the sums of two lanes: each goes on with its half of them.
template <int count, int all, class Acc>
__device__ void join_halves(Acc (&sums)[all], int lanes) {
  const bool upper = (static_cast<int>(threadIdx.x) & lanes) != 0;
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    const Acc given = upper ? sums[i] : sums[i + count / 2], kept = upper ? sums[i + count / 2] : sums[i];
    sums[i] = kept + shuffle_xor(given, lanes);
  }
}
template <class Acc>
__device__ Acc join_rest(Acc sum, int lanes) {
  for (; lanes > 0; lanes /= 2)
    sum += shuffle_xor(sum, lanes);
  return sum;
}

// `add_rows`: the sums of a's rows as well, by the first warps of the blocks of the first columns.
template <bool add_rows, class T>
__global__ void __launch_bounds__(k_split_block) split_product_kernel(SmallProduct<T> p) {
  start_early();
  using Acc = Compute<T>;
  __shared__ Acc left[k_split_tile * k_split_pitch], right[k_split_tile * k_split_pitch];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % k_warp, warp = thread / k_warp;
  const int first_row = static_cast<int>(blockIdx.y) * k_split_tile;
  const int first_column = static_cast<int>(blockIdx.x) * k_split_tile;
  const int down = warp / (k_split_tile / k_across) * k_down, across = warp % (k_split_tile / k_across) * k_across;
  const auto batch = static_cast<std::int64_t>(blockIdx.z);
  p.a.data += batch * p.a.batch_stride;
  p.b.data += batch * p.b.batch_stride;

  Part<T> next_left(p.a, first_row), next_right(p.b, first_column);
  next_left.load(p.a, 0, p.depth);
  next_right.load(p.b, 0, p.depth);
  // Of a warp's results the one that this lane ends up with, and what it is added to.
  const int mine = lane / 4, row = first_row + down + mine / k_across, column = first_column + across + mine % k_across;
  const bool real = row < p.a.outer && column < p.b.outer;
  const std::int64_t at = batch * p.c_batch + (real ? row * p.c_row + column : 0);
  T* const to = p.c + at;
  const bool masked = real && is_masked(p, at);
  const Acc bias = real && p.bias != nullptr ? static_cast<Acc>(p.bias[column]) : Acc(0);
  const Acc old = real && p.accumulate ? static_cast<Acc>(*to) : Acc(0);

  Acc sums[k_down * k_across] = {}, row_sums[k_down] = {};
  for (int begin = 0; begin < p.depth; begin += k_stretch) {
    next_left.keep(left);
    next_right.keep(right);
    __syncthreads();
    const int rest = p.depth - begin;
    if (rest > k_stretch) {
      next_left.load(p.a, begin + k_stretch, p.depth);
      next_right.load(p.b, begin + k_stretch, p.depth);
    }
    add_stretch<add_rows>(
        left + down * k_split_pitch,
        right + across * k_split_pitch,
        rest < k_stretch ? rest : k_stretch,
        sums,
        row_sums);
    __syncthreads();
  }

  join_halves<8>(sums, 16);
  join_halves<4>(sums, 8);
  join_halves<2>(sums, 4);
  const Acc sum = join_rest(sums[0], 2);
  if (real && lane % 4 == 0)
    *to = finished(p, sum, old, bias, masked);
  if constexpr (add_rows) {
    join_halves<4>(row_sums, 16);
    join_halves<2>(row_sums, 8);
    const Acc total = join_rest(row_sums[0], 4);
    const int which = first_row + down + lane / 8;
    if (blockIdx.x == 0 && across == 0 && lane % 8 == 0 && which < p.a.outer)
      p.row_sums[which] = T(total);
  }
}

}  // namespace

template <class T>
void launch_split_product(const Queue& queue, const SmallProduct<T>& product, std::int64_t batch) {
  const auto tiles = [](int extent) { return static_cast<unsigned>((extent + k_split_tile - 1) / k_split_tile); };
  const dim3 grid(tiles(product.b.outer), tiles(product.a.outer), static_cast<unsigned>(batch));
  if (product.row_sums != nullptr)
    split_product_kernel<true><<<grid, k_split_block, 0, stream_of(queue)>>>(product);
  else
    split_product_kernel<false><<<grid, k_split_block, 0, stream_of(queue)>>>(product);
  check_early_launch("small_product", stream_of(queue));
}

template void launch_split_product(const Queue&, const SmallProduct<float>&, std::int64_t);
template void launch_split_product(const Queue&, const SmallProduct<double>&, std::int64_t);
template void launch_split_product(const Queue&, const SmallProduct<Half>&, std::int64_t);
template void launch_split_product(const Queue&, const SmallProduct<BFloat16>&, std::int64_t);

}  // namespace sluice::detail
