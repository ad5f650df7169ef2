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

/// A thread a pixel of some channels: it asks each region what the pixel weighs there.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    roi_backward_kernel(RoiWalk<C> walk, FloatingArray<C> dy, std::int64_t chunks, FloatingArray<C> dx) {
  start_early();
  constexpr int k_each = 8;
  const Group group(1);
  const std::int64_t bins = walk.rows * walk.columns, size = walk.height * walk.width;
  for (std::int64_t i = group.index; i < walk.images * chunks * size; i += group.count) {
    const std::int64_t x = i % walk.width, y = i / walk.width % walk.height, first = i / size % chunks * k_each;
    const std::int64_t image = i / size / chunks;
    C sums[k_each] = {};
    for (std::int64_t r = 0; r < walk.regions; ++r) {
      const Roi<C> of = walk.region(r);
      if (of.image != image)
        continue;
      for (std::int64_t row = of.y.first_bin(y); row < of.y.last_bin(y); ++row) {
        const C by_row = of.y.weight(row, y) / of.count;
        for (std::int64_t column = of.x.first_bin(x); by_row != 0 && column < of.x.last_bin(x); ++column) {
          const C by = by_row * of.x.weight(column, x);
          const std::int64_t at = (r * walk.channels + first) * bins + row * walk.columns + column;
#pragma unroll
          for (int c = 0; c < k_each; ++c)
            sums[c] += by != 0 && first + c < walk.channels ? by * dy[at + c * bins] : C(0);
        }
      }
    }
#pragma unroll
    for (int c = 0; c < k_each; ++c) {
      if (first + c < walk.channels)
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
    const std::int64_t chunks = (walk.channels + 7) / 8;
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
