#include <cstddef>
#include <cstdint>
#include <cstring>

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
    const U fill = filled<U>(numbers.value, element);
    launch_axis_walk<typename Form::Row, U, 1>(Form::Row::name, run, &source, 1, y.data, fill, stream_of(call.queue));
  });
}

}  // namespace

void walk_gpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers) {
  with_walk(row, [&]<class Form>(Form) { walk_row<Form>(call, numbers); });
}

}  // namespace sluice::detail
