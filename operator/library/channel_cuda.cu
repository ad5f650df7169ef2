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

template <class T>
struct AddBias {
  T* y;
  const T* bias;
  bool relu;

  template <int V>
  using Values = Neighbours<T, V>;
  template <int W>
  using Of = ChannelNumbers<T, W>;
  template <int W>
  __device__ Of<W> of(std::int64_t c) const {
    return Of<W>(bias == nullptr ? nullptr : bias + c, T(Compute<T>(0)));
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    return *reinterpret_cast<const Values<V>*>(y + offset);
  }
  template <int V, int W>
  __device__ void store(std::int64_t offset, Neighbours<T, V> values, const ChannelNumbers<T, W>& added) const {
    using Acc = Compute<T>;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Acc value = static_cast<Acc>(values.at[j]);
      if (bias != nullptr)
        value += static_cast<Acc>(added[j]);
      values.at[j] = T(relu && value <= Acc(0) ? Acc(0) : value);
    }
    *reinterpret_cast<Neighbours<T, V>*>(y + offset) = values;
  }
};

template <class T>
struct FinishChannels {
  using Acc = Compute<T>;
  T* y;
  const Acc *scale, *shift;
  const T* residual;
  bool relu;

  template <int V>
  struct Values {
    Neighbours<T, V> y, residual;
  };
  template <int W>
  struct Of {
    ChannelNumbers<Acc, W> scale, shift;
  };
  template <int W>
  __device__ Of<W> of(std::int64_t c) const {
    return {
        ChannelNumbers<Acc, W>(scale == nullptr ? nullptr : scale + c),
        ChannelNumbers<Acc, W>(shift == nullptr ? nullptr : shift + c)};
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    Values<V> values;
    values.y = *reinterpret_cast<const Neighbours<T, V>*>(y + offset);
    if (residual != nullptr)
      values.residual = *reinterpret_cast<const Neighbours<T, V>*>(residual + offset);
    return values;
  }
  template <int V, int W>
  __device__ void store(std::int64_t offset, const Values<V>& values, const Of<W>& known) const {
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Acc value = static_cast<Acc>(values.y.at[j]);
      if (scale != nullptr)
        value *= known.scale[j];
      if (shift != nullptr)
        value += known.shift[j];
      if (residual != nullptr)
        value += static_cast<Acc>(values.residual.at[j]);
      made.at[j] = T(relu && value <= Acc(0) ? Acc(0) : value);
    }
    *reinterpret_cast<Neighbours<T, V>*>(y + offset) = made;
  }
};

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
        view, aligned_for_vectors(values), stream_of(queue), "channel_add", AddBias<T>{values, added, relu});
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
        view,
        aligned_for_vectors(values, residual),
        stream_of(queue),
        "channel_finish",
        FinishChannels<T>{values, scale, shift, residual, then.relu});
  });
}

}  // namespace sluice::detail
