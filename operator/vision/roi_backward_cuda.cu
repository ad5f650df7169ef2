#include <algorithm>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/vision/roi_walk.h>

namespace sluice::detail {

namespace {

constexpr int k_side = 8;                                         // of the square of pixels that a block has
constexpr int k_each = 4;                                         // channels of a thread, which has a pixel
constexpr int k_held = k_group_block / k_side / k_side * k_each;  // channels of a block
constexpr int k_bins = 8;                                         // of an axis, whose weights and heads a block holds

/// A square of pixels of an image: (top, left) to (bottom, right), which are of it.
struct Square {
  std::int64_t image, top, left, bottom, right;
};

/// Whether anything of an axis lies between two pixels: rounded outwards, for it is only to leave out most regions.
/// False where an end is NaN: no sample lies anywhere then.
template <class C>
__device__ bool reaches(const RoiAxis<C>& axis, std::int64_t first, std::int64_t last) {
  const C length = axis.bin * static_cast<C>(axis.bins), end = axis.start + length;
  const C beside = 2 + (fabs(axis.start) + fabs(length)) * C(1e-6);
  const C low = (axis.start < end ? axis.start : end) - beside, high = (axis.start < end ? end : axis.start) + beside;
  return low <= static_cast<C>(last) && static_cast<C>(first) <= high;
}

/// What a block holds of a region: what some bins weigh in the rows and the columns of its square, and their heads.
template <class C>
struct Held {
  C rows[k_bins][k_side], columns[k_bins][k_side], heads[k_held][k_bins * k_bins];
};

// Bins from (row, column) on, those of heads that are there: a thread works out one weight at most.
template <class C>
__device__ void hold(
    const Roi<C>& of,
    const Square& square,
    std::int64_t row,
    std::int64_t column,
    const FloatingArray<C>& dy,
    std::int64_t first,
    std::int64_t channels,
    Held<C>& held) {
  const int thread = static_cast<int>(threadIdx.x), bin = thread / k_side % k_bins, pixel = thread % k_side;
  if (thread < k_bins * k_side) {
    const bool is_there = row + bin < of.y.bins && square.top + pixel <= square.bottom;
    held.rows[bin][pixel] = is_there ? of.y.weight(row + bin, square.top + pixel) : C(0);
  } else if (thread < 2 * k_bins * k_side) {
    const bool is_there = column + bin < of.x.bins && square.left + pixel <= square.right;
    held.columns[bin][pixel] = is_there ? of.x.weight(column + bin, square.left + pixel) / of.count : C(0);
  }
  for (int i = thread; i < k_held * k_bins * k_bins; i += k_group_block) {
    const int c = i / (k_bins * k_bins), down = i / k_bins % k_bins, across = i % k_bins;
    const bool is_there = c < channels && row + down < of.y.bins && column + across < of.x.bins;
    const std::int64_t at = ((first + c) * of.y.bins + row + down) * of.x.bins + column + across;
    held.heads[c][i % (k_bins * k_bins)] = is_there ? dy[at] : C(0);
  }
}

// What the thread's pixel has of the bins held.
template <class C>
__device__ void add_held(const Held<C>& held, C (&sums)[k_each]) {
  const int thread = static_cast<int>(threadIdx.x), x = thread % k_side, y = thread / k_side % k_side;
  const int first = thread / k_side / k_side * k_each;
  for (int i = 0; i < k_bins; ++i) {
    const C by_row = held.rows[i][y];
    if (by_row == 0)
      continue;
#pragma unroll
    for (int j = 0; j < k_bins; ++j) {
      const C by = by_row * held.columns[j][x];
      if (by == 0)
        continue;
#pragma unroll
      for (int c = 0; c < k_each; ++c)
        sums[c] += by * held.heads[first + c][i * k_bins + j];
    }
  }
}

/// A block has a square of pixels of some channels, and goes through the regions that reach it, in their order: what
/// bins weigh there is worked out once for all its pixels and channels.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    roi_backward_kernel(RoiWalk<C> walk, FloatingArray<C> dy, ErrorWord* errors, FloatingArray<C> dx) {
  start_early();
  __shared__ Held<C> held;
  __shared__ bool is_near[k_group_block];
  const std::int64_t down = (walk.height + k_side - 1) / k_side, across = (walk.width + k_side - 1) / k_side;
  const std::int64_t chunks = (walk.channels + k_held - 1) / k_held, units = walk.images * chunks * down * across;
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t top = unit / across % down * k_side, left = unit % across * k_side;
    const Square square{
        unit / across / down / chunks,
        top,
        left,
        top + k_side < walk.height ? top + k_side - 1 : walk.height - 1,
        left + k_side < walk.width ? left + k_side - 1 : walk.width - 1};
    const std::int64_t first = unit / across / down % chunks * k_held;
    C sums[k_each] = {};
    for (std::int64_t begin = 0; begin < walk.regions; begin += k_group_block) {
      const int count = static_cast<int>(walk.regions - begin < k_group_block ? walk.regions - begin : k_group_block);
      if (thread < count) {
        const Roi<C> of = walk.region(begin + thread);
        is_near[thread] = of.image == square.image && reaches(of.y, square.top, square.bottom) &&
                          reaches(of.x, square.left, square.right);
        if (of.image < 0 && unit == 0)
          report_index(errors, static_cast<std::int64_t>(walk.rois[(begin + thread) * 5]), walk.images);
      }
      __syncthreads();
      for (int r = 0; r < count; ++r) {
        if (!is_near[r])
          continue;
        const Roi<C> of = walk.region(begin + r);
        const std::int64_t plane = (begin + r) * walk.channels + first;
        const std::int64_t last_row = of.y.last_bin(square.bottom), last_column = of.x.last_bin(square.right);
        for (std::int64_t row = of.y.first_bin(square.top); row < last_row; row += k_bins) {
          for (std::int64_t column = of.x.first_bin(square.left); column < last_column; column += k_bins) {
            hold(of, square, row, column, dy, plane, walk.channels - first, held);
            __syncthreads();
            add_held(held, sums);
            __syncthreads();  // before others are held
          }
        }
      }
      __syncthreads();  // those near are asked no more
    }
    const std::int64_t x = left + thread % k_side, y = top + thread / k_side % k_side;
    const std::int64_t from = first + thread / k_side / k_side * k_each;
    for (int c = 0; c < k_each; ++c) {
      if (y < walk.height && x < walk.width && from + c < walk.channels)
        dx.put(((square.image * walk.channels + from + c) * walk.height + y) * walk.width + x, sums[c]);
    }
  }
}

}  // namespace

void roi_samples_backward_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  if (dx.size == 0)
    return;
  by_computing_type(dx.dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], dx.shape);
    const auto parts = [](std::int64_t n, int of) { return (n + of - 1) / of; };
    const std::int64_t squares = parts(walk.height, k_side) * parts(walk.width, k_side);
    const std::int64_t units = walk.images * parts(walk.channels, k_held) * squares;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(units, 1 << 20));
    roi_backward_kernel<<<blocks, k_group_block, 0, stream_of(call.queue)>>>(
        walk, FloatingArray<C>(dy), call.queue.error_word(), FloatingArray<C>(dx));
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

}  // namespace sluice::detail
