#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>

namespace sluice::detail {
namespace {

template <class T>
struct AddElements {
  template <int V>
  using Values = Neighbours<T, V>;
  const T* x;
  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t) const {
    return *reinterpret_cast<const Values<V>*>(x + offset);
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

template <int V, class T, class G>
__global__ void __launch_bounds__(k_block) add_kernel(G at, bool along, T* y, const T* bias, bool relu) {
  start_early();
  using Acc = Compute<T>;
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    auto* const place = reinterpret_cast<Neighbours<T, V>*>(y + offset[0]);
    Neighbours<T, V> values = *place;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Acc value = static_cast<Acc>(values.at[j]);
      if (bias != nullptr)
        value += static_cast<Acc>(bias[offset[1] + (along ? j : 0)]);
      values.at[j] = T(relu && value <= Acc(0) ? Acc(0) : value);
    }
    *place = values;
  }
}

template <int V, class T, class G>
__global__ void __launch_bounds__(k_block) finish_kernel(
    G at, bool along, T* y, const Compute<T>* scale, const Compute<T>* shift, const T* residual, bool relu) {
  start_early();
  using Acc = Compute<T>;
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    auto* const place = reinterpret_cast<Neighbours<T, V>*>(y + offset[0]);
    Neighbours<T, V> values = *place, others = values;
    if (residual != nullptr)
      others = *reinterpret_cast<const Neighbours<T, V>*>(residual + offset[0]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const auto channel = offset[1] + (along ? j : 0);
      Acc value = static_cast<Acc>(values.at[j]);
      if (scale != nullptr)
        value *= scale[channel];
      if (shift != nullptr)
        value += shift[channel];
      if (residual != nullptr)
        value += static_cast<Acc>(others.at[j]);
      values.at[j] = T(relu && value <= Acc(0) ? Acc(0) : value);
    }
    *place = values;
  }
}

}  // namespace

void channel_sum_gpu(const Queue& queue, const ChannelView& view, const void* x, void* sums) {
  by_floating(view.dtype, [&]<class T>() {
    channel_reduce<ChannelSum<Compute<T>>, k_neighbours<T>>(
        queue,
        view,
        aligned_for_vectors(x),
        "channel_sum",
        AddElements<T>{static_cast<const T*>(x)},
        WriteChannelSum<T>{static_cast<T*>(sums)});
  });
}

void channel_add_gpu(const Queue& queue, const ChannelView& view, void* y, const void* bias, bool relu) {
  by_floating(view.dtype, [&]<class T>() {
    T* const values = static_cast<T*>(y);
    const T* const added = static_cast<const T*>(bias);
    walk_channels<k_neighbours<T>>(
        view, aligned_for_vectors(values), [&]<int V>(const auto& at, bool along, unsigned blocks) {
          add_kernel<V><<<blocks, k_block, 0, stream_of(queue)>>>(at, along, values, added, relu);
          check_early_launch("channel_add", stream_of(queue));
        });
  });
}

void channel_finish_gpu(const Queue& queue, const ChannelView& view, void* y, const ChannelEpilogue& then) {
  if (then.empty() || view.size() == 0)
    return;
  by_floating(view.dtype, [&]<class T>() {
    T* const values = static_cast<T*>(y);
    const auto* const scale = static_cast<const Compute<T>*>(then.scale);
    const auto* const shift = static_cast<const Compute<T>*>(then.shift);
    const T* const residual = static_cast<const T*>(then.residual);
    walk_channels<k_neighbours<T>>(
        view, aligned_for_vectors(values, residual), [&]<int V>(const auto& at, bool along, unsigned blocks) {
          finish_kernel<V>
              <<<blocks, k_block, 0, stream_of(queue)>>>(at, along, values, scale, shift, residual, then.relu);
          check_early_launch("channel_finish", stream_of(queue));
        });
  });
}

}  // namespace sluice::detail
