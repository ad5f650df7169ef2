#include <array>
#include <cstdint>
#include <limits>

#include <sluice/operator/conv/unpooled_relu.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/pool/walk.cuh>

// What a pooling's gradient writes is read again at once by relu's, which knows what to write of it: one walk does both
// where channels are neighbours.
namespace sluice::detail {
namespace {

/// Of each pixel the heads of the windows whose maximum it is, where relu let it through; written, and added up.
template <class T, class Index>
struct UnpoolMaskAndAdd {
  template <int V>
  using Values = Neighbours<T, V>;
  PoolWalk<Index> walk;  // of pixels
  Divider<Index> channels;
  const T* dy;
  Index steps[4];  // of dy
  const std::int32_t* index;
  const T* y;
  T* dz;

  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t) const {
    using C = Compute<T>;
    const Index pixel = channels.divide(static_cast<Index>(offset));
    const Index channel = static_cast<Index>(offset) - pixel * channels.value();
    const auto at = walk.place(walk.in, pixel);
    const auto ys = walk.windows_of(0, at.y), xs = walk.windows_of(1, at.x);
    const auto here = static_cast<std::int32_t>(at.y * walk.in.width + at.x);
    C sums[V] = {};
    for (Index row = ys.begin; row < ys.end; ++row) {
      for (Index column = xs.begin; column < xs.end; ++column) {
        const Index window = walk.vector(walk.out, at, row, column);
        const auto where =
            *reinterpret_cast<const Neighbours<std::int32_t, V>*>(index + window * channels.value() + channel);
        const T* const head = dy + at.outer * steps[0] + channel * steps[1] + row * steps[2] + column * steps[3];
#pragma unroll
        for (int j = 0; j < V; ++j)
          sums[j] += where.at[j] == here ? static_cast<C>(head[j * steps[1]]) : C(0);
      }
    }
    const Values<V> result = *reinterpret_cast<const Values<V>*>(y + offset);
    Values<V> made;
#pragma unroll
    for (int j = 0; j < V; ++j)  // NaN passes the head on
      made.at[j] = static_cast<C>(result.at[j]) <= C(0) ? T(0.0f) : T(sums[j]);
    *reinterpret_cast<Values<V>*>(dz + offset) = made;
    return made;
  }
  template <int V>
  __device__ Values<1> one(const Values<V>& values, int j) const {
    return {values.at[j]};
  }
  template <int V, int U>
  __device__ void add(ChannelSum<Compute<T>>& sum, const Neighbours<T, V> (&loaded)[U]) const {
#pragma unroll
    for (int k = 0; k < U * V; ++k)
      sum.v[0] += static_cast<Compute<T>>(loaded[k / V].at[k % V]);
  }
};

template <class T, class Index>
void unpool(const KernelCall& call, const PoolGeometry& g, bool row_by_row) {
  const TensorView& y = call.inputs[2];
  const Shape &shape = y.shape, &maxima = call.inputs[0].shape;
  const auto steps = row_by_row ? contiguous_strides(maxima)
                                : Shape{maxima[1] * maxima[2] * maxima[3], 1, maxima[1] * maxima[3], maxima[1]};
  const auto* const index = call.inputs[1].as<std::int32_t>();
  T* const dz = call.outputs[0].as<T>();
  UnpoolMaskAndAdd<T, Index> body{
      PoolWalk<Index>(g, shape[0] * shape[2] * shape[3], 1),
      Divider<Index>(shape[1]),
      call.inputs[0].as<T>(),
      {},
      index,
      y.as<T>(),
      dz};
  for (int axis = 0; axis < 4; ++axis)
    body.steps[axis] = static_cast<Index>(steps[axis]);
  const ChannelView view{shape[0] * shape[2] * shape[3], shape[1], 1, y.dtype};
  const bool aligned = aligned_for_vectors(y.as<T>(), dz) && starts_neighbours<std::int32_t, k_neighbours<T>>(index);
  channel_reduce<ChannelSum<Compute<T>>, k_neighbours<T>>(
      call.queue, view, aligned, call.op.name, body, WriteChannelSum<T>{call.outputs[1].as<T>()});
}

}  // namespace

void unpooled_relu_gpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &y = call.inputs[2];
  if (y.size == 0 || order_of(y.shape, y.strides) != MemoryOrder::channels_last)
    return unpooled_relu_in_two(call);
  const PoolGeometry g = pool_geometry(call.op.name, y.shape, call.attributes.as<PoolAttributes>());
  const bool row_by_row = order_of(dy.shape, dy.strides) != MemoryOrder::channels_last;
  const bool is_small = y.size < std::numeric_limits<std::int32_t>::max() / 2;
  by_floating(y.dtype, [&]<class T>() {
    if (is_small)
      unpool<T, std::int32_t>(call, g, row_by_row);
    else
      unpool<T, std::int64_t>(call, g, row_by_row);
  });
}

}  // namespace sluice::detail
