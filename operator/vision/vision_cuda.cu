#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/vision/roi_walk.h>

namespace sluice::detail {

namespace {

template <class C>
__global__ void __launch_bounds__(k_group_block)
    roi_kernel(RoiWalk<C> walk, FloatingArray<C> x, std::int64_t size, ErrorWord* errors, FloatingArray<C> y) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count) {
    const std::int64_t column = i % walk.columns, row = i / walk.columns % walk.rows;
    const std::int64_t plane = i / walk.columns / walk.rows, r = plane / walk.channels;
    const Roi<C> of = walk.region(r);
    if (of.image < 0) {
      report_index(errors, static_cast<std::int64_t>(walk.rois[r * 5]), walk.images);
      continue;
    }
    y.put(i, walk.mean(x, of, plane % walk.channels, row, column));
  }
}

/// A region, and between which pixels anything of it lies: rounded outwards, for it is only to leave out most regions.
template <class C>
struct NearRegion {
  Roi<C> of;
  C top, bottom, left, right;

  __device__ explicit NearRegion(const Roi<C>& roi) : of(roi) {
    bounds(of.y, top, bottom);
    bounds(of.x, left, right);
  }
  /// False where an end is NaN: no sample lies anywhere then.
  __device__ bool reaches(std::int64_t y, std::int64_t x) const {
    const auto row = static_cast<C>(y), column = static_cast<C>(x);
    return top <= row && row <= bottom && left <= column && column <= right;
  }

 private:
  static __device__ void bounds(const RoiAxis<C>& axis, C& low, C& high) {
    const C length = axis.bin * static_cast<C>(axis.bins), end = axis.start + length;
    const C beside = 2 + (fabs(axis.start) + fabs(length)) * C(1e-6);
    low = (axis.start < end ? axis.start : end) - beside;
    high = (axis.start < end ? end : axis.start) + beside;
  }
};

constexpr int k_roi_channels = 4, k_roi_columns = 4;  // of a thread, and bins whose weights it holds

// What pixel (y, x) has of a region, of some channels.
template <class C>
__device__ void add_region(
    const RoiWalk<C>& walk,
    const Roi<C>& of,
    std::int64_t y,
    std::int64_t x,
    const FloatingArray<C>& dy,
    std::int64_t first,
    int channels,
    C (&sums)[k_roi_channels]) {
  const std::int64_t bins = walk.rows * walk.columns, last_column = of.x.last_bin(x), last_row = of.y.last_bin(y);
  for (std::int64_t begin = of.x.first_bin(x); begin < last_column; begin += k_roi_columns) {
    C weights[k_roi_columns];
#pragma unroll
    for (int j = 0; j < k_roi_columns; ++j)
      weights[j] = begin + j < last_column ? of.x.weight(begin + j, x) / of.count : C(0);
    for (std::int64_t row = of.y.first_bin(y); row < last_row; ++row) {
      const C by_row = of.y.weight(row, y);
      if (by_row == 0)
        continue;
#pragma unroll
      for (int j = 0; j < k_roi_columns; ++j) {
        const C by = by_row * weights[j];
        const std::int64_t at = first + row * walk.columns + begin + j;
#pragma unroll
        for (int c = 0; c < k_roi_channels; ++c)
          sums[c] += by != 0 && c < channels ? by * dy[at + c * bins] : C(0);
      }
    }
  }
}

/// A thread a pixel of some channels: it asks each region what the pixel weighs there. Blocks work out some regions at
/// once for all their pixels.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    roi_backward_kernel(RoiWalk<C> walk, FloatingArray<C> dy, std::int64_t chunks, FloatingArray<C> dx) {
  start_early();
  constexpr int k_regions = 128;
  alignas(16) __shared__ unsigned char memory[k_regions * sizeof(NearRegion<C>)];
  auto* const held = reinterpret_cast<NearRegion<C>*>(memory);
  const std::int64_t bins = walk.rows * walk.columns, size = walk.height * walk.width;
  const std::int64_t all = walk.images * chunks * size;
  for (std::int64_t block = blockIdx.x; block * k_group_block < all; block += gridDim.x) {
    const std::int64_t i = block * k_group_block + threadIdx.x;
    const std::int64_t x = i % walk.width, y = i / walk.width % walk.height, image = i / size / chunks;
    const std::int64_t first = i / size % chunks * k_roi_channels, left = walk.channels - first;
    const int channels = static_cast<int>(left < k_roi_channels ? left : k_roi_channels);
    C sums[k_roi_channels] = {};
    for (std::int64_t tile = 0; tile < walk.regions; tile += k_regions) {
      const int count = static_cast<int>(walk.regions - tile < k_regions ? walk.regions - tile : k_regions);
      __syncthreads();  // those before may still be asked
      if (static_cast<int>(threadIdx.x) < count)
        held[threadIdx.x] = NearRegion<C>(walk.region(tile + threadIdx.x));
      __syncthreads();
      for (int r = 0; r < count; ++r) {
        if (held[r].of.image == image && held[r].reaches(y, x))
          add_region(walk, held[r].of, y, x, dy, ((tile + r) * walk.channels + first) * bins, channels, sums);
      }
    }
#pragma unroll
    for (int c = 0; c < k_roi_channels; ++c) {
      if (i < all && c < channels)
        dx.put((image * walk.channels + first + c) * size + y * walk.width + x, sums[c]);
    }
  }
}

/// Regions of images that are not there.
template <class C>
__global__ void __launch_bounds__(k_group_block) check_regions_kernel(RoiWalk<C> walk, ErrorWord* errors) {
  start_early();
  const Group group(1);
  for (std::int64_t r = group.index; r < walk.regions; r += group.count) {
    if (walk.region(r).image < 0)
      report_index(errors, static_cast<std::int64_t>(walk.rois[r * 5]), walk.images);
  }
}

}  // namespace

void roi_samples_gpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  by_computing_type(x.dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], x.shape);
    roi_kernel<<<blocks_for_groups(y.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        walk, FloatingArray<C>(x), y.size, call.queue.error_word(), FloatingArray<C>(y));
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

void roi_samples_backward_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  if (dx.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(dx.dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], dx.shape);
    const std::int64_t chunks = (walk.channels + k_roi_channels - 1) / k_roi_channels;
    if (walk.regions > 0) {
      check_regions_kernel<<<blocks_for_groups(walk.regions, 1), k_group_block, 0, stream>>>(
          walk, call.queue.error_word());
      check_early_launch(call.op.name, stream);
    }
    roi_backward_kernel<<<blocks_for_groups(dx.size / walk.channels * chunks, 1), k_group_block, 0, stream>>>(
        walk, FloatingArray<C>(dy), chunks, FloatingArray<C>(dx));
    check_early_launch(call.op.name, stream);
  });
}

}  // namespace sluice::detail
