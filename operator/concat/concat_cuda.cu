#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/kernels.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/walk/axis_walk_cuda.cuh>

namespace sluice::detail {

namespace {

constexpr int k_table = 64;  // arrays a launch

/// Entry o comes from the array that begins at a.
struct Placed {
  template <class I>
  __device__ static I from(I o, I, I a, I) {
    return o - a;
  }
};

// The widest unit that all addresses and row lengths are multiples of.
std::size_t unit_of(const KernelCall& call, int axis, std::int64_t inner_bytes) {
  auto bits = reinterpret_cast<std::uintptr_t>(call.outputs[0].data);
  for (const TensorView& input : call.inputs) {
    if (input.size > 0)
      bits |=
          reinterpret_cast<std::uintptr_t>(input.data) | static_cast<std::uintptr_t>(input.shape[axis] * inner_bytes);
  }
  return widest_unit(bits);
}

// Slices of neighbours: what lies within the axis counts as entries of one unit.
template <class U>
void concat_units(const KernelCall& call, int axis, const AxisLayout& whole, std::int64_t inner_bytes) {
  const auto unit = static_cast<std::int64_t>(sizeof(U));
  const AxisRun run{whole.outer, whole.n * inner_bytes / unit, 1};
  AxisSource sources[k_table];
  std::int64_t first = 0;
  int count = 0;
  const auto launch = [&] {
    launch_axis_walk<Placed, U, k_table>(
        "concat", run, sources, count, call.outputs[0].data, U{}, stream_of(call.queue));
    count = 0;
  };
  for (const TensorView& input : call.inputs) {
    if (input.size == 0)
      continue;
    const std::int64_t width = input.shape[axis] * inner_bytes / unit;
    sources[count++] = {input.data, width, first, width, first, 0};
    first += width;
    if (count == k_table)
      launch();
  }
  if (count > 0)
    launch();
}

}  // namespace

void concat_gpu(const KernelCall& call) {
  const int axis = static_cast<int>(call.attributes.as<ConcatAttributes>().axis);
  const AxisLayout whole = axis_layout(call.outputs[0].shape, axis);
  if (call.outputs[0].size == 0)
    return;
  const std::int64_t inner_bytes = whole.inner * static_cast<std::int64_t>(size_of(call.outputs[0].dtype));
  by_unit(unit_of(call, axis, inner_bytes), [&]<class U>() { concat_units<U>(call, axis, whole, inner_bytes); });
}

}  // namespace sluice::detail
