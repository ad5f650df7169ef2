#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/gather/last_positions.cuh>
#include <sluice/operator/gather/strided.h>

namespace sluice::detail {

namespace {

template <class U, class Geometry>
__global__ void __launch_bounds__(k_block) take_strided_kernel(
    Geometry at, const U* x, const __grid_constant__ ResolvedIndices indices, EntrySteps entries, U* y) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    const std::int64_t entry = indices.at(offset[1], true);
    y[i] = entry < 0 ? U{} : x[offset[0] + entries.offset(entry)];
  }
}

// Positions that are not the last of their entry do not count.
template <class U, class Geometry>
__global__ void __launch_bounds__(k_block) put_strided_kernel(
    Geometry at,
    const U* values,
    std::int64_t value_step,
    const __grid_constant__ ResolvedIndices indices,
    EntrySteps entries,
    LastOf last,
    U* y) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    const std::int64_t entry = indices.at(offset[1], false);
    if (entry >= 0 && last.is(entry, offset[1]))
      y[offset[0] + entries.offset(entry)] = values[i * value_step];
  }
}

}  // namespace

void take_strided_gpu(const KernelCall& call, const Taking& taking) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const ResolvedIndices indices(call, taking.place);
  const EntrySteps entries(taking.place, taking, x);
  by_element_size(size_of(x.dtype), [&]<class U>() {
    with_geometry(plan_entries(taking, x, y.shape), [&](auto at) {
      take_strided_kernel<<<blocks_for(at.size), k_block, 0, stream_of(call.queue)>>>(
          at, x.as<const U>(), indices, entries, y.as<U>());
      check_early_launch(call.op.name, stream_of(call.queue));
    });
  });
}

void put_entries_gpu(const KernelCall& call) {
  const TensorView &y = call.inputs[0], &values = call.inputs[1];
  if (values.size == 0)
    return;
  const Taking taking = taking_of(IndexKind::tuple, call, call.inputs[2], y.shape);
  const ResolvedIndices indices(call, taking.place);
  const EntrySteps entries(taking.place, taking, y);
  const LastPositions last(call, taking);
  by_element_size(size_of(y.dtype), [&]<class U>() {
    with_geometry(plan_entries(taking, y, values.shape), [&](auto at) {
      put_strided_kernel<<<blocks_for(at.size), k_block, 0, stream_of(call.queue)>>>(
          at, values.as<const U>(), step_of_values(values), indices, entries, last.at(), y.as<U>());
      check_early_launch(call.op.name, stream_of(call.queue));
    });
  });
}

}  // namespace sluice::detail
