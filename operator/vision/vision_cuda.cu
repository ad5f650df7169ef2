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

}  // namespace sluice::detail
