#pragma once

// Batch norm on a GPU: statistics by channel_reduce, then one pass over the elements.
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/norm/kernels.h>

namespace sluice::detail {

/// Calls launch(geometry) for a walk whose operand 0 is the data and operand 1 the channel.
template <class Launch>
void walk_channels(const ChannelView& view, Launch&& launch) {
  const Shape shape{view.outer, view.channels, view.inner};
  const Shape data = contiguous_strides(shape);
  const Shape channel{0, 1, 0};
  with_geometry(plan_strided<2>(shape, {&data, &channel}), launch);
}

}  // namespace sluice::detail
