#include <cooperative_groups.h>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/matmul/small_product.cuh>
#include <sluice/operator/matmul/tensor_product.h>

namespace sluice::detail {
namespace {

// A block computes a tile of c over its part of k, in stretches that are copied while earlier ones are multiplied. The
// blocks of a cluster have parts of the same tile; each reads the others' sums and finishes its share of the tile.
constexpr int k_rows = 32, k_stretch = 32, k_tensor_block = 128, k_most_parts = 8;
constexpr int k_own_rows = 16;                // of a warp; two warps lie below each other, two side by side
constexpr int k_deep = 8, k_across = 8;       // an instruction multiplies 16 by 8 with 8 by 8
constexpr int k_depth_pitch = k_stretch + 4;  // lanes of a warp meet different banks
template <int outer>
constexpr int k_outer_pitch = outer + 8;
template <int outer>
constexpr int k_room =
    outer* k_depth_pitch > k_stretch* k_outer_pitch<outer> ? outer* k_depth_pitch : k_stretch* k_outer_pitch<outer>;
template <int columns>
constexpr int k_stages = columns > 32 ? 3 : 4;  // what fits into the memory that a block always has

#if __CUDA_ARCH__ >= 900
namespace cg = cooperative_groups;

// 16 bytes to shared memory, of which `real` are read and the others become 0.
__device__ void copy_behind(float* to, const float* from, int real) {
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(real) : "memory");
}
__device__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int left>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
__device__ unsigned to_tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
__device__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// `outer` rows of a or columns of b from `first` on, and what lies in shared memory of them.
template <int outer>
class Stretch {
 public:
  __device__ Stretch(const Operand<float>& operand, int first, int depth)
      : operand_(operand), first_(first), depth_(depth), by_depth_(operand.depth_stride == 1) {}

  __device__ void copy(float* to, int k) const {
    constexpr int quads = outer * k_stretch / 4;
#pragma unroll
    for (int i = 0; i < quads / k_tensor_block; ++i) {
      const int quad = static_cast<int>(threadIdx.x) + i * k_tensor_block;
      const int line = by_depth_ ? quad / (k_stretch / 4) : quad / (outer / 4);
      const int along = (by_depth_ ? quad % (k_stretch / 4) : quad % (outer / 4)) * 4;
      const int row = first_ + (by_depth_ ? line : along), deep = k + (by_depth_ ? along : line);
      const int room = by_depth_ ? depth_ - deep : operand_.outer - row;
      const bool inside = row < operand_.outer && deep < depth_;
      const int real = inside ? (room < 4 ? room : 4) : 0;
      const float* const from =
          operand_.data + (inside ? row * operand_.outer_stride + deep * operand_.depth_stride : 0);
      copy_behind(to + line * (by_depth_ ? k_depth_pitch : k_outer_pitch<outer>)+along, from, real * 4);
    }
  }
  __device__ float at(const float* kept, int row, int k) const {
    return by_depth_ ? kept[row * k_depth_pitch + k] : kept[k * k_outer_pitch<outer> + row];
  }

 private:
  const Operand<float>& operand_;
  int first_, depth_;
  bool by_depth_;
};

// A stretch in shared memory, as a warp adds it up.
template <int columns, class Left, class Right>
__device__ void add_stretch(
    const Left& left, const Right& right, const float* a, const float* b, float (&sums)[columns / 2 / k_across][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * k_own_rows + lane / 4, column = warp % 2 * (columns / 2) + lane / 4, deep = lane % 4;
#pragma unroll
  for (int k = 0; k < k_stretch; k += k_deep) {
    const unsigned down[4] = {
        to_tf32(left.at(a, row, k + deep)),
        to_tf32(left.at(a, row + 8, k + deep)),
        to_tf32(left.at(a, row, k + deep + 4)),
        to_tf32(left.at(a, row + 8, k + deep + 4))};
#pragma unroll
    for (int j = 0; j < columns / 2 / k_across; ++j) {
      const unsigned across[2] = {
          to_tf32(right.at(b, column + j * k_across, k + deep)),
          to_tf32(right.at(b, column + j * k_across, k + deep + 4))};
      multiply_add(sums[j], down, across);
    }
  }
}

// A quarter of what a stretch adds to the sum of row `threadIdx.x / 4` of a.
template <class Left>
__device__ float quarter_of_row(const Left& left, const float* a) {
  const int row = static_cast<int>(threadIdx.x) / 4, first = static_cast<int>(threadIdx.x) % 4;
  float sum = 0;
#pragma unroll
  for (int k = first; k < k_stretch; k += 4)
    sum += left.at(a, row, k);
  return sum;
}
#endif

// `add_rows`: the sums of a's rows as well, by the blocks of the first columns.
template <int columns, bool add_rows>
__global__ void __launch_bounds__(k_tensor_block) tensor_product_kernel(SmallProduct<float> p) {
#if __CUDA_ARCH__ >= 900
  constexpr int stages = k_stages<columns>, room = k_room<k_rows> + k_room<columns>, beside = columns / 2 / k_across;
  alignas(16) __shared__ float shared[stages * room];
  __shared__ float row_parts[k_rows];
  const cg::cluster_group cluster = cg::this_cluster();
  const int parts = static_cast<int>(cluster.num_blocks()), part = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int tile = static_cast<int>(blockIdx.x) / parts;
  const int first_row = static_cast<int>(blockIdx.y) * k_rows, first_column = tile * columns;
  const auto batch = static_cast<std::int64_t>(blockIdx.z);
  p.a.data += batch * p.a.batch_stride;
  p.b.data += batch * p.b.batch_stride;
  const int all = (p.depth + k_stretch - 1) / k_stretch, begin = part * all / parts, end = (part + 1) * all / parts;
  const Stretch<k_rows> left(p.a, first_row, p.depth);
  const Stretch<columns> right(p.b, first_column, p.depth);

  const auto copy = [&](int stretch) {
    if (stretch < end) {
      float* const to = shared + (stretch - begin) % stages * room;
      left.copy(to, stretch * k_stretch);
      right.copy(to + k_room<k_rows>, stretch * k_stretch);
    }
    end_copies();
  };
  for (int i = 0; i < stages - 1; ++i)
    copy(begin + i);
  float sums[beside][4] = {}, row_sum = 0;
  for (int stretch = begin; stretch < end; ++stretch) {
    await_copies<stages - 2>();
    __syncthreads();  // this stretch is there for all, and all are through with the one before it
    copy(stretch + stages - 1);
    const float* const a = shared + (stretch - begin) % stages * room;
    add_stretch<columns>(left, right, a, a + k_room<k_rows>, sums);
    if (add_rows && tile == 0)
      row_sum += quarter_of_row(left, a);
  }
  await_copies<0>();
  __syncthreads();

  // Into the memory that held the stretches.
  const int lane = thread % 32, warp = thread / 32;
  float* const mine = shared + (warp / 2 * k_own_rows + lane / 4) * columns + warp % 2 * (columns / 2) + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < beside; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const to = mine + half * 8 * columns + j * k_across;
      to[0] = sums[j][2 * half];
      to[1] = sums[j][2 * half + 1];
    }
  }
  if constexpr (add_rows) {
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 1);
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 2);
    if (thread % 4 == 0)
      row_parts[thread / 4] = row_sum;
  }
  cluster.sync();
  const int share = k_rows * columns / parts;
  for (int place = part * share + thread; place < (part + 1) * share; place += k_tensor_block) {
    const int row = first_row + place / columns, column = first_column + place % columns;
    if (row >= p.a.outer || column >= p.b.outer)
      continue;
    float sum = 0;
    for (int other = 0; other < parts; ++other)
      sum += cluster.map_shared_rank(shared, static_cast<unsigned>(other))[place];
    const std::int64_t at = batch * p.c_batch + row * p.c_row + column;
    float* const to = p.c + at;
    *to = finished(p, sum, p.accumulate ? *to : 0.0f, p.bias != nullptr ? p.bias[column] : 0.0f, is_masked(p, at));
  }
  if constexpr (add_rows) {
    if (tile == 0 && part == 0 && thread < k_rows && first_row + thread < p.a.outer) {
      float sum = 0;
      for (int other = 0; other < parts; ++other)
        sum += cluster.map_shared_rank(row_parts, static_cast<unsigned>(other))[thread];
      p.row_sums[first_row + thread] = sum;
    }
  }
  cluster.sync();  // nobody leaves whose memory is still read
#endif
}

std::int64_t tiles_of(std::int64_t extent, std::int64_t tile) {
  return (extent + tile - 1) / tile;
}

bool lies_aligned(const Matrix& matrix, std::int64_t outer_stride, std::int64_t depth_stride) {
  const bool whole = outer_stride == 1 ? depth_stride % 4 == 0 : depth_stride == 1 && outer_stride % 4 == 0;
  return whole && matrix.batch % 4 == 0 && reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0;
}

template <int columns, bool add_rows>
void launch(const Queue& queue, const SmallProduct<float>& product, const GemmProblem& p) {
  constexpr std::int64_t k_blocks = 132;  // a large GPU's processors
  const std::int64_t tiles = tiles_of(p.m, k_rows) * tiles_of(p.n, columns) * p.batch, deep = tiles_of(p.k, k_stretch);
  unsigned parts = 1;
  while (parts < k_most_parts && tiles * parts < k_blocks && parts * 2 <= deep)
    parts *= 2;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {parts, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(
      static_cast<unsigned>(tiles_of(p.n, columns)) * parts,
      static_cast<unsigned>(tiles_of(p.m, k_rows)),
      static_cast<unsigned>(p.batch));
  config.blockDim = dim3(k_tensor_block);
  config.stream = stream_of(queue);
  config.attrs = &cluster;
  config.numAttrs = 1;
  cuda::cuda_check(cudaLaunchKernelEx(&config, tensor_product_kernel<columns, add_rows>, product), "tensor_product");
}

}  // namespace

bool takes_tensor_product(const Queue& queue, const GemmProblem& p) {
  constexpr double most = 1e8;                               // multiplications
  constexpr std::int64_t most_tiles = 640, deepest = 16384;  // tiles of 32 by 64
  if (p.dtype != DType::float32 || current_float32_precision() != Float32Precision::high || p.c.column != 1 ||
      p.row_bias != nullptr || p.c_in_accumulator || p.k > deepest)
    return false;
  const double products =
      static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if (products > most || tiles_of(p.m, k_rows) * tiles_of(p.n, 64) * p.batch > most_tiles)
    return false;
  if (!lies_aligned(p.a, p.a.row, p.a.column) || !lies_aligned(p.b, p.b.column, p.b.row))
    return false;
  int major = 0;
  cuda::cuda_check(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, queue.device().index),
      "cudaDeviceGetAttribute");
  return major >= 9;
}

void tensor_product_gpu(const Queue& queue, const GemmProblem& p, void* row_sums) {
  const SmallProduct<float> product{
      {static_cast<const float*>(p.a.data), p.a.row, p.a.column, p.a.batch, static_cast<int>(p.m)},
      {static_cast<const float*>(p.b.data), p.b.column, p.b.row, p.b.batch, static_cast<int>(p.n)},
      static_cast<float*>(p.c.data),
      p.c.row,
      p.c.batch,
      static_cast<int>(p.k),
      static_cast<const float*>(p.column_bias),
      static_cast<float*>(row_sums),
      static_cast<const float*>(p.mask),
      p.relu,
      p.accumulate};
  const bool wide = tiles_of(p.m, k_rows) * tiles_of(p.n, 64) * p.batch * k_most_parts >= 128;
  if (wide)
    row_sums != nullptr ? launch<64, true>(queue, product, p) : launch<64, false>(queue, product, p);
  else
    row_sums != nullptr ? launch<32, true>(queue, product, p) : launch<32, false>(queue, product, p);
}

}  // namespace sluice::detail
