#include <cooperative_groups.h>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/matmul/small_product.cuh>
#include <sluice/operator/matmul/tensor_product.h>

namespace sluice::detail {
namespace {

// A block computes a tile of c over its part of k, in stretches, as many of them under way to shared memory as fit; its
// two teams of four warps have half of each stretch. The blocks of a cluster have parts of the same tile; each reads
// the others' sums and finishes its share of the tile.
constexpr int k_rows = 32, k_stretch = 32, k_tensor_block = 256, k_teams = 2, k_most_parts = 8;
constexpr int k_own_rows = 16;           // of a warp; two warps of a team lie below each other, two side by side
constexpr int k_deep = 8, k_across = 8;  // an instruction multiplies 16 by 8 with 8 by 8
template <int columns>
constexpr int k_stages = columns > 32 ? 3 : 4;  // what fits into the memory that a block always has

// How `outer` rows of a, or columns of b, lie in shared memory: as in memory, with a pitch at which the lanes of a warp
// meet different banks.
template <int outer, bool by_depth>
struct Kept {
  static constexpr int line = by_depth ? k_stretch : outer, lines = by_depth ? outer : k_stretch;
  static constexpr int pitch = line + (by_depth ? 4 : 8), room = lines * pitch;
  static constexpr int along_outer = by_depth ? pitch : 1, along_depth = by_depth ? 1 : pitch;
};

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
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A thread's share of what goes to shared memory of one operand: vectors of four, a few lines apart.
template <int outer, bool by_depth>
class Copies {
 public:
  using Lies = Kept<outer, by_depth>;
  static constexpr int quads = Lies::line / 4, step = k_tensor_block / quads, count = Lies::lines / step;

  __device__ Copies(const Operand<float>& operand, int first, int begin, int depth)
      : data_(operand.data), depth_(depth), outer_(operand.outer) {
    const int thread = static_cast<int>(threadIdx.x), line = thread / quads, along = thread % quads * 4;
    row_ = first + (by_depth ? line : along);
    k_ = begin * k_stretch + (by_depth ? along : line);
    place_ = line * Lies::pitch + along;
    stride_ = by_depth ? operand.outer_stride : operand.depth_stride;
    offset_ = by_depth ? row_ * stride_ + k_ : k_ * stride_ + row_;
  }
  /// The next stretch.
  __device__ void copy(float* to) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int row = row_ + (by_depth ? i * step : 0), k = k_ + (by_depth ? 0 : i * step);
      const int room = by_depth ? depth_ - k : outer_ - row;
      const bool inside = row < outer_ && k < depth_;
      copy_behind(
          to + place_ + i * step * Lies::pitch,
          data_ + (inside ? offset_ + i * step * stride_ : 0),
          inside ? (room < 4 ? room : 4) * 4 : 0);
    }
    k_ += k_stretch;
    offset_ += by_depth ? k_stretch : k_stretch * stride_;
  }

 private:
  const float* data_;
  std::int64_t stride_, offset_;
  int depth_, outer_, row_, k_, place_;
};

// A team's half of a stretch in shared memory, as a warp adds it up.
template <int columns, class Left, class Right>
__device__ void add_stretch(const float* a, const float* b, float (&sums)[columns / 2 / k_across][4]) {
#pragma unroll
  for (int k = 0; k < k_stretch / k_teams; k += k_deep) {
    const float* const down = a + k * Left::along_depth;
    const unsigned left[4] = {
        to_tf32(down[0]),
        to_tf32(down[8 * Left::along_outer]),
        to_tf32(down[4 * Left::along_depth]),
        to_tf32(down[8 * Left::along_outer + 4 * Left::along_depth])};
#pragma unroll
    for (int j = 0; j < columns / 2 / k_across; ++j) {
      const float* const across = b + k * Right::along_depth + j * k_across * Right::along_outer;
      const unsigned right[2] = {to_tf32(across[0]), to_tf32(across[4 * Right::along_depth])};
      multiply_add(sums[j], left, right);
    }
  }
}

// A thread's eighth of what a stretch adds to the sum of a row of a.
template <class Left>
__device__ float eighth_of_row(const float* a) {
  const int row = static_cast<int>(threadIdx.x) / 8, first = static_cast<int>(threadIdx.x) % 8;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < k_stretch; k += 8)
    sum += a[row * Left::along_outer + (first + k) * Left::along_depth];
  return sum;
}

// The sums of one tile that both teams of all blocks of a cluster have, four neighbours of them, in the blocks' order.
template <int columns>
__device__ float4 joined(const cg::cluster_group& cluster, float4* sums, int parts, int quad) {
  constexpr int tile = k_rows * columns / 4;
  float4 all[k_most_parts][k_teams];
#pragma unroll
  for (int part = 0; part < k_most_parts; ++part) {
    const float4* const from = cluster.map_shared_rank(sums, static_cast<unsigned>(part < parts ? part : 0));
#pragma unroll
    for (int team = 0; team < k_teams; ++team)
      all[part][team] = part < parts ? from[team * tile + quad] : float4{0, 0, 0, 0};
  }
  float4 sum{0, 0, 0, 0};
#pragma unroll
  for (int part = 0; part < k_most_parts; ++part) {
#pragma unroll
    for (int team = 0; team < k_teams; ++team) {
      sum.x += all[part][team].x;
      sum.y += all[part][team].y;
      sum.z += all[part][team].z;
      sum.w += all[part][team].w;
    }
  }
  return sum;
}
#endif

// `add_rows`: the sums of a's rows as well, by the blocks of the first columns.
template <int columns, bool a_by_depth, bool b_by_depth, bool add_rows>
__global__ void __launch_bounds__(k_tensor_block) tensor_product_kernel(const __grid_constant__ SmallProduct<float> p) {
#if __CUDA_ARCH__ >= 900
  using Left = Kept<k_rows, a_by_depth>;
  using Right = Kept<columns, b_by_depth>;
  constexpr int stages = k_stages<columns>, room = Left::room + Right::room, beside = columns / 2 / k_across;
  static_assert(stages * room >= k_teams * k_rows * columns);
  alignas(16) __shared__ float shared[stages * room];
  __shared__ float row_parts[k_rows];
  const cg::cluster_group cluster = cg::this_cluster();
  const int parts = static_cast<int>(cluster.num_blocks()), part = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32 % 4, team = thread / 128;
  const int tile = static_cast<int>(blockIdx.x) / parts;
  const int first_row = static_cast<int>(blockIdx.y) * k_rows, first_column = tile * columns;
  const auto batch = static_cast<std::int64_t>(blockIdx.z);
  const int all = (p.depth + k_stretch - 1) / k_stretch, begin = part * all / parts, end = (part + 1) * all / parts;
  Operand<float> a = p.a, b = p.b;
  a.data += batch * a.batch_stride;
  b.data += batch * b.batch_stride;
  Copies<k_rows, a_by_depth> left(a, first_row, begin, p.depth);
  Copies<columns, b_by_depth> right(b, first_column, begin, p.depth);
  const auto copy = [&](int stretch, float* to) {
    if (stretch < end) {
      left.copy(to);
      right.copy(to + Left::room);
    }
    end_copies();
  };
#pragma unroll
  for (int i = 0; i < stages; ++i)
    copy(begin + i, shared + i * room);

  const int row = warp / 2 * k_own_rows + lane / 4, column = warp % 2 * (columns / 2) + lane / 4;
  const int deep = team * (k_stretch / k_teams) + lane % 4;
  const int mine_of_a = row * Left::along_outer + deep * Left::along_depth;
  const int mine_of_b = Left::room + column * Right::along_outer + deep * Right::along_depth;
  float sums[beside][4] = {}, row_sum = 0;
  float* stage = shared;
  for (int stretch = begin; stretch < end; ++stretch) {
    await_copies<stages - 1>();
    __syncthreads();  // the stretch is there for all
    add_stretch<columns, Left, Right>(stage + mine_of_a, stage + mine_of_b, sums);
    if (add_rows && tile == 0)
      row_sum += eighth_of_row<Left>(stage);
    __syncthreads();  // and all are through with it
    copy(stretch + stages, stage);
    stage = stage == shared + (stages - 1) * room ? shared : stage + room;
  }
  await_copies<0>();
  __syncthreads();

  // Into the memory that held the stretches.
  float* const mine = shared + team * k_rows * columns + row * columns + warp % 2 * (columns / 2) + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < beside; ++j) {
    *reinterpret_cast<float2*>(mine + j * k_across) = {sums[j][0], sums[j][1]};
    *reinterpret_cast<float2*>(mine + j * k_across + 8 * columns) = {sums[j][2], sums[j][3]};
  }
  if constexpr (add_rows) {
#pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2)
      row_sum += __shfl_xor_sync(0xffffffffu, row_sum, lanes);
    if (thread % 8 == 0)
      row_parts[thread / 8] = row_sum;
  }
  cluster.sync();
  const int share = k_rows * columns / 4 / parts;
  for (int quad = part * share + thread; quad < (part + 1) * share; quad += k_tensor_block) {
    const int to_row = first_row + quad / (columns / 4), to_column = first_column + quad % (columns / 4) * 4;
    const float4 sum = joined<columns>(cluster, reinterpret_cast<float4*>(shared), parts, quad);
    const float each[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (to_row >= a.outer || to_column + j >= b.outer)
        continue;
      const std::int64_t at = batch * p.c_batch + to_row * p.c_row + to_column + j;
      const float bias = p.bias != nullptr ? p.bias[to_column + j] : 0.0f;
      p.c[at] = finished(p, each[j], p.accumulate ? p.c[at] : 0.0f, bias, is_masked(p, at));
    }
  }
  if constexpr (add_rows) {
    if (tile == 0 && part == 0 && thread < k_rows && first_row + thread < a.outer) {
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

template <int columns, bool a_by_depth, bool b_by_depth>
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
  const auto kernel = product.row_sums != nullptr ? tensor_product_kernel<columns, a_by_depth, b_by_depth, true>
                                                  : tensor_product_kernel<columns, a_by_depth, b_by_depth, false>;
  cuda::cuda_check(cudaLaunchKernelEx(&config, kernel, product), "tensor_product");
}

template <int columns>
void launch_as_it_lies(const Queue& queue, const SmallProduct<float>& product, const GemmProblem& p) {
  const bool a_by_depth = p.a.column == 1, b_by_depth = p.b.row == 1;
  if (a_by_depth)
    b_by_depth ? launch<columns, true, true>(queue, product, p) : launch<columns, true, false>(queue, product, p);
  else
    b_by_depth ? launch<columns, false, true>(queue, product, p) : launch<columns, false, false>(queue, product, p);
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
  if (tiles_of(p.m, k_rows) * tiles_of(p.n, 64) * p.batch * k_most_parts >= 128)
    launch_as_it_lies<64>(queue, product, p);
  else
    launch_as_it_lies<32>(queue, product, p);
}

}  // namespace sluice::detail
