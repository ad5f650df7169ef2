#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/conv/window_walk.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>

namespace sluice::detail {

namespace {

template <class U>
__global__ void __launch_bounds__(k_group_block)
    take_windows_kernel(WindowWalk walk, int width, const U* x, U* columns) {
  start_early();
  const Group group(width);
  const std::int64_t rows = walk.rows();
  for (std::int64_t i = group.index; i < rows; i += group.count) {
    const WindowWalk::Row at = walk.row(i);
    for (std::int64_t ox = group.lane; ox < walk.out[1]; ox += width)
      columns[i * walk.out[1] + ox] = walk.taken(x, at, ox);
  }
}

template <class C>
__global__ void __launch_bounds__(k_group_block)
    add_windows_kernel(WindowWalk walk, std::int64_t size, FloatingArray<C> columns, FloatingArray<C> x) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    x.put(i, walk.added(columns, i));
}

}  // namespace

void unfold_gpu(const KernelCall& call, const WindowWalk& walk) {
  const TensorView &x = call.inputs[0], &columns = call.outputs[0];
  if (columns.size == 0)
    return;
  const int width = walk.out[1] < 8 ? 1 : walk.out[1] <= 256 ? k_warp : k_group_block;
  by_element_size(size_of(x.dtype), [&]<class U>() {
    take_windows_kernel<<<blocks_for_groups(walk.rows(), width), k_group_block, 0, stream_of(call.queue)>>>(
        walk, width, x.as<const U>(), columns.as<U>());
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

void fold_gpu(const KernelCall& call, const WindowWalk& walk) {
  const TensorView& x = call.outputs[0];
  if (x.size == 0)
    return;
  by_computing_type(x.dtype, [&]<class C>() {
    add_windows_kernel<<<blocks_for_groups(x.size, 1), k_group_block, 0, stream_of(call.queue)>>>(
        walk, x.size, FloatingArray<C>(call.inputs[0]), FloatingArray<C>(x));
  });
  check_early_launch(call.op.name, stream_of(call.queue));
}

}  // namespace sluice::detail
