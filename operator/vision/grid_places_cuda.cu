#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/vision/grid_rule.h>
#include <sluice/operator/vision/tap_places.h>

namespace sluice::detail {

namespace {

template <class C>
__global__ void __launch_bounds__(k_group_block)
    grid_places_kernel(GridRules<C> rules, std::int64_t size, const C* grid, C* rows, C* columns) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    rules.put(grid, rows, columns, i);
}

template <class C>
__global__ void __launch_bounds__(k_group_block) grid_places_backward_kernel(
    GridRules<C> rules, std::int64_t size, const C* rows, const C* columns, const C* grid, C* to) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < size; i += group.count)
    rules.put_gradient(rows, columns, grid, to, i);
}

template <class C>
__global__ void __launch_bounds__(k_group_block) tap_places_kernel(TapPlaces<C> places) {
  start_early();
  const Group group(1);
  for (std::int64_t i = group.index; i < places.size; i += group.count)
    places.put(i);
}

}  // namespace

void tap_places_gpu(const KernelCall& call) {
  const TensorView& rows = call.outputs[0];
  if (rows.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(rows.dtype, [&]<class C>() {
    tap_places_kernel<<<blocks_for_groups(rows.size, 1), k_group_block, 0, stream>>>(TapPlaces<C>(call));
  });
  check_early_launch(call.op.name, stream);
}

void grid_places_gpu(const KernelCall& call) {
  const TensorView &grid = call.inputs[0], &rows = call.outputs[0];
  if (rows.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(grid.dtype, [&]<class C>() {
    grid_places_kernel<<<blocks_for_groups(rows.size, 1), k_group_block, 0, stream>>>(
        GridRules<C>(call.attributes.as<GridPlacesAttributes>()),
        rows.size,
        grid.as<const C>(),
        rows.as<C>(),
        call.outputs[1].as<C>());
  });
  check_early_launch(call.op.name, stream);
}

void grid_places_backward_gpu(const KernelCall& call) {
  const TensorView &rows = call.inputs[0], &to = call.outputs[0];
  if (rows.size == 0)
    return;
  const cudaStream_t stream = stream_of(call.queue);
  by_computing_type(to.dtype, [&]<class C>() {
    grid_places_backward_kernel<<<blocks_for_groups(rows.size, 1), k_group_block, 0, stream>>>(
        GridRules<C>(call.attributes.as<GridPlacesAttributes>()),
        rows.size,
        rows.as<const C>(),
        call.inputs[1].as<const C>(),
        call.inputs[2].as<const C>(),
        to.as<C>());
  });
  check_early_launch(call.op.name, stream);
}

}  // namespace sluice::detail
