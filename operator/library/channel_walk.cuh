#pragma once

// One pass over the elements of (outer, channels, inner), each with its channel.
#include <algorithm>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/channel_rows.cuh>

namespace sluice::detail {

/// V neighbours of one channel at once, where planes are whole vectors.
template <int V>
inline bool pack_planes(StridedPlan<2>& plan) noexcept {
  const int inner = plan.ndim - 1;
  if (plan.extents[inner] % V != 0 || plan.strides[0][inner] != 1 || plan.strides[1][inner] != 0)
    return false;
  for (int axis = 0; axis < inner; ++axis) {
    if (plan.strides[0][axis] % V != 0)
      return false;
  }
  plan.extents[inner] /= V;
  plan.size /= V;
  plan.strides[0][inner] = V;
  return true;
}

template <int V, class G, class Body>
__global__ void __launch_bounds__(k_block) walk_planes(G at, Body body) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    body.store(offset[0], body.template load<V>(offset[0]), body.template of<1>(offset[1]));
  }
}

/// Channels that are neighbours: a thread stays with V of them and holds what is known of them in registers, of which
/// there would otherwise be several loads an element.
template <int V, class Body>
__global__ void __launch_bounds__(k_rows_block, blocks_at_once<Body>()) walk_rows(ChannelRowsCut cut, Body body) {
  start_early();
  const int lane = static_cast<int>(threadIdx.x) % cut.lanes, beside = k_rows_block / cut.lanes;
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * cut.lanes + lane;
  if (vector >= cut.vectors)
    return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * cut.chunk_rows;
  const std::int64_t end = begin + cut.chunk_rows < cut.rows ? begin + cut.chunk_rows : cut.rows;
  const auto place = [&](std::int64_t row) { return (row * cut.vectors + vector) * V; };
  const auto known = body.template of<V>(vector * V);
  std::int64_t row = begin + static_cast<int>(threadIdx.x) / cut.lanes;
  for (; row + (k_rows_under_way - 1) * beside < end; row += k_rows_under_way * beside) {
    typename Body::template Values<V> loaded[k_rows_under_way];
#pragma unroll
    for (int i = 0; i < k_rows_under_way; ++i)
      loaded[i] = body.template load<V>(place(row + i * beside));
#pragma unroll
    for (int i = 0; i < k_rows_under_way; ++i)
      body.store(place(row + i * beside), loaded[i], known);
  }
  for (; row < end; row += beside)
    body.store(place(row), body.template load<V>(place(row)), known);
}

/// As many rows a thread as keep a large GPU's blocks at hand, so that what is loaded of channels serves several: whole
/// rounds, two of them where there are blocks enough.
inline ChannelRowsCut channel_walk_cut(std::int64_t rows, std::int64_t vectors) {
  constexpr std::int64_t most_blocks = 4096, enough_blocks = 768, round = k_rows_under_way;
  ChannelRowsCut cut{vectors, rows, 0, channel_lanes(vectors), 1};
  const std::int64_t beside = k_rows_block / cut.lanes;
  const std::int64_t blocks = (rows + beside - 1) / beside * cut.groups();
  std::int64_t each = std::clamp<std::int64_t>(blocks / enough_blocks, 1, 2 * round);
  each = each < round ? each : each / round * round;
  if (each * most_blocks < blocks)
    each = (blocks + most_blocks * round - 1) / (most_blocks * round) * round;
  cut.chunk_rows = each * beside;
  cut.chunks = static_cast<int>((rows + cut.chunk_rows - 1) / cut.chunk_rows);
  return cut;
}

/// Walks over elements by a Body: load<V>(offset) gives the `Values<V>` of V neighbours, of<W>(channel) what is known
/// of W channels side by side, and store(offset, values, known) takes V values of as many channels or of one. V is
/// `widest` where every array is `aligned` to that and the shape allows it, otherwise 1. No elements: no launch.
template <int widest, class Body>
void walk_channels(const ChannelView& view, bool aligned, cudaStream_t stream, const char* name, const Body& body) {
  if (view.size() == 0)
    return;
  if (view.inner == 1 && aligned && view.channels % widest == 0) {
    const ChannelRowsCut cut = channel_walk_cut(view.outer, view.channels / widest);
    const dim3 grid(cut.groups(), static_cast<unsigned>(cut.chunks));
    walk_rows<widest><<<grid, k_rows_block, 0, stream>>>(cut, body);
    check_early_launch(name, stream);
    return;
  }
  const Shape shape{view.outer, view.channels, view.inner};
  const Shape data = contiguous_strides(shape);
  const Shape channel{0, 1, 0};
  StridedPlan<2> plan = plan_strided<2>(shape, {&data, &channel});
  if (aligned && pack_planes<widest>(plan)) {
    with_geometry(plan, [&](auto at) { walk_planes<widest><<<blocks_for(at.size), k_block, 0, stream>>>(at, body); });
  } else {
    with_geometry(plan, [&](auto at) { walk_planes<1><<<blocks_for(at.size, 4), k_block, 0, stream>>>(at, body); });
  }
  check_early_launch(name, stream);
}

/// What is known of W channels, a number each; of V elements the j-th has the j-th, or all have the one.
template <class Acc, int W>
struct ChannelNumbers {
  Acc at[W];
  __device__ explicit ChannelNumbers(const Acc* numbers, Acc otherwise = Acc(0)) {
#pragma unroll
    for (int j = 0; j < W; ++j)
      at[j] = numbers == nullptr ? otherwise : numbers[j];
  }
  __device__ Acc operator[](int j) const {
    return at[W == 1 ? 0 : j];
  }
};

/// True if vectors of 16 bytes can be loaded from all of them.
template <class... Pointer>
bool aligned_for_vectors(const Pointer*... pointers) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace sluice::detail
