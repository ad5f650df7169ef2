#include <cstdint>
#include <limits>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/kernels.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/walk/axis_walk_cuda.cuh>

namespace sluice::detail {

namespace {

constexpr int k_table = 64;  // arrays a launch
constexpr int k_few = 16;    // among which each thread finds the one that its units come from

/// Entry o comes from the array that begins at a.
struct Placed {
  template <class I>
  __device__ static I from(I o, I, I a, I) {
    return o - a;
  }
};

/// The whole result from a few arrays, by vectors of neighbours that may come from several: units of one and two bytes.
template <class U>
__global__ void __launch_bounds__(k_block) concat_vectors_kernel(
    const __grid_constant__ AxisParts<std::int32_t, k_few> parts,
    int count,
    Divider<std::int32_t> extent,
    std::int32_t size,
    U* out) {
  start_early();
  constexpr int V = k_neighbours<U>;
  const int step = static_cast<int>(gridDim.x * blockDim.x) * V;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V; i < size; i += step) {
    int outer = extent.divide(i), o = i - outer * extent.value(), p = 0;
    const auto find_part = [&] {
      while (p + 1 < count && o >= parts.part[p + 1].first)
        ++p;
    };
    const auto place = [&] { return outer * parts.part[p].n + o - parts.part[p].first; };
    find_part();
    const AxisPart<std::int32_t>& part = parts.part[p];
    const bool is_run = o + V <= part.first + part.n && i + V <= size;
    if (const int at = place(); is_run && has_room_around<U>(at, part.units)) {
      *reinterpret_cast<Neighbours<U, V>*>(out + i) = read_run(static_cast<const U*>(part.from) + at);
      continue;
    }
    for (int v = 0; v < V && i + v < size; ++v) {
      out[i + v] = static_cast<const U*>(parts.part[p].from)[place()];
      if (++o == extent.value()) {
        o = 0;
        p = 0;
        ++outer;
      }
      find_part();
    }
  }
}

/// False where vectors do not pay, or numbers need more than 32 bits.
template <class U>
bool launch_vectors(U* out, const AxisRun& run, const AxisSource* sources, int count, cudaStream_t stream) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() / 2;
  const std::int64_t size = run.outer * run.extent;
  if (count > k_few || size < k_worth_vectors || size > limit || !starts_neighbours<U, k_neighbours<U>>(out))
    return false;
  const AxisParts<std::int32_t, k_few> parts = axis_parts<std::int32_t, k_few>(run, sources, count);
  concat_vectors_kernel<<<blocks_for(size / k_neighbours<U>), k_block, 0, stream>>>(
      parts, count, Divider<std::int32_t>(run.extent), static_cast<std::int32_t>(size), out);
  check_early_launch("concat", stream);
  return true;
}

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
  void* const out = call.outputs[0].data;
  const cudaStream_t stream = stream_of(call.queue);
  AxisSource sources[k_table] = {};
  std::int64_t first = 0;
  int count = 0;
  const auto launch = [&] {
    launch_axis_walk<Placed, U, k_table>("concat", run, sources, count, out, U{}, stream);
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
  if constexpr (sizeof(U) <= 2) {
    if (count > 0 && sources->first == 0 && launch_vectors(static_cast<U*>(out), run, sources, count, stream))
      return;
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
  if (places_by_element(call)) {
    return for_each_placed(call, [&](const TensorView& x, const TensorView& to) {
      const CopyPlan plan = plan_strided<2>(x.shape, {&to.strides, &x.strides}, AxisOrder::free);
      cast_on_gpu(call.queue.stream(), plan, to.data, to.dtype, x.data, x.dtype);
    });
  }
  const std::int64_t inner_bytes = whole.inner * static_cast<std::int64_t>(size_of(call.outputs[0].dtype));
  by_unit(unit_of(call, axis, inner_bytes), [&]<class U>() { concat_units<U>(call, axis, whole, inner_bytes); });
}

}  // namespace sluice::detail
