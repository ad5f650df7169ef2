#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sluice/operator/axis_layout.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/walk/axis_walk_cuda.cuh>
#include <sluice/operator/walk/rows.h>

namespace sluice::detail {

namespace {

/// `value`, of an element, as often as a unit holds it.
template <class U>
U filled(std::uint64_t value, std::size_t element) noexcept {
  U unit;
  for (std::size_t at = 0; at < sizeof(U); at += element)
    std::memcpy(reinterpret_cast<std::byte*>(&unit) + at, &value, element);
  return unit;
}

/// Elements R times each: a thread writes V neighbours of those that it reads at once.
template <int R, class U>
__global__ void __launch_bounds__(k_block) spread_kernel(const U* from, U* out, std::int64_t size) {
  start_early();
  constexpr int V = k_neighbours<U>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < size; i += step) {
    if (i + V <= size) {
      const auto read = *reinterpret_cast<const Neighbours<U, V / R>*>(from + i / R);
      Neighbours<U, V> spread;
#pragma unroll
      for (int v = 0; v < V; ++v)
        spread.at[v] = read.at[v / R];
      *reinterpret_cast<Neighbours<U, V>*>(out + i) = spread;
      continue;
    }
    for (std::int64_t k = i; k < size; ++k)
      out[k] = from[k / R];
  }
}

/// Whether entries of one and two bytes twice or four times are written so: where vectors begin at both.
template <class U>
bool launch_spread(const KernelCall& call, std::int64_t repeats) {
  const void* const from = call.inputs[0].data;
  U* const out = call.outputs[0].as<U>();
  const std::int64_t size = call.outputs[0].size;
  const cudaStream_t stream = stream_of(call.queue);
  constexpr int V = k_neighbours<U>;
  if (!(starts_neighbours<U, V>(out) && starts_neighbours<U, V>(from)) || (repeats != 2 && repeats != 4))
    return false;
  const unsigned blocks = blocks_for(size / V);
  const auto* const elements = static_cast<const U*>(from);
  if (repeats == 2)
    spread_kernel<2><<<blocks, k_block, 0, stream>>>(elements, out, size);
  else
    spread_kernel<4><<<blocks, k_block, 0, stream>>>(elements, out, size);
  check_early_launch(call.op.name, stream);
  return true;
}

template <class Form>
void walk_row(const KernelCall& call, const WalkNumbers& numbers) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const int axis = static_cast<int>(numbers.axis);
  const AxisLayout at = Form::of(axis_layout(x.shape, axis));
  const std::size_t element = size_of(x.dtype);
  const auto slice = static_cast<std::uintptr_t>(at.inner) * element;
  const std::size_t unit =
      widest_unit(slice | reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(y.data));
  const std::int64_t extent = Form::extent(y.shape[axis], numbers.a);
  const AxisRun run{at.outer, extent, static_cast<std::int64_t>(slice / unit)};
  const AxisSource source{x.data, at.n, 0, extent, numbers.a, numbers.b};
  by_unit(unit, [&]<class U>() {
    if constexpr (std::is_same_v<typename Form::Row, Again> && sizeof(U) <= 2) {
      if (run.inner == 1 && launch_spread<U>(call, extent))
        return;
    }
    const U fill = filled<U>(numbers.value, element);
    launch_axis_walk<typename Form::Row, U, 1>(call.op.name, run, &source, 1, y.data, fill, stream_of(call.queue));
  });
}

}  // namespace

void walk_gpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers) {
  with_walk(row, [&]<class Form>(Form) { walk_row<Form>(call, numbers); });
}

}  // namespace sluice::detail
