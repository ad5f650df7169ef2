#pragma once

// One pass over the elements of (outer, channels, inner), each with its channel.
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/channel.h>

namespace sluice::detail {

/// V neighbours at once: of one channel, or of V channels that lie side by side (`along`).
template <int V>
inline bool pack_channels(StridedPlan<2>& plan, bool& along) noexcept {
  const int inner = plan.ndim - 1;
  if (plan.extents[inner] % V != 0 || plan.strides[0][inner] != 1)
    return false;
  for (int axis = 0; axis < inner; ++axis) {
    if (plan.strides[0][axis] % V != 0)
      return false;
  }
  along = plan.strides[1][inner] == 1;
  plan.extents[inner] /= V;
  plan.size /= V;
  plan.strides[0][inner] = V;
  plan.strides[1][inner] *= V;
  return true;
}

/// Calls launch.operator()<V>(geometry, along, blocks) for a walk whose operand 0 is the data and operand 1 the
/// channel. V is `widest` where every array is `aligned` to that and the shape allows it, otherwise 1.
template <int widest, class Launch>
void walk_channels(const ChannelView& view, bool aligned, Launch&& launch) {
  const Shape shape{view.outer, view.channels, view.inner};
  const Shape data = contiguous_strides(shape);
  const Shape channel{0, 1, 0};
  StridedPlan<2> plan = plan_strided<2>(shape, {&data, &channel});
  bool along = false;
  if (aligned && pack_channels<widest>(plan, along)) {
    with_geometry(plan, [&](auto at) { launch.template operator()<widest>(at, along, blocks_for(at.size)); });
  } else {
    with_geometry(plan, [&](auto at) { launch.template operator()<1>(at, false, blocks_for(at.size, 4)); });
  }
}

/// True if vectors of 16 bytes can be loaded from all of them.
template <class... Pointer>
bool aligned_for_vectors(const Pointer*... pointers) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace sluice::detail
