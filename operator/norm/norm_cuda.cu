#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

// Count, mean and sum of squares around it, joined as in Chan, Golub and LeVeque (1979).
template <class Acc>
struct ChannelMoments {
  static constexpr int n = 3;
  Acc v[3];
  __device__ void merge(const ChannelMoments& other) {
    if (other.v[0] == Acc(0))
      return;
    if (v[0] == Acc(0)) {  // the distance from no mean at all has a square that may not fit
      *this = other;
      return;
    }
    const Acc count = v[0] + other.v[0];
    const Acc share = other.v[0] / count;
    const Acc distance = other.v[1] - v[1];
    v[2] += other.v[2] + distance * distance * v[0] * share;
    v[1] += distance * share;
    v[0] = count;
  }
};

/// What a thread gathers of V channels: sums of distances from a shift and of their squares. The shift is the mean of
/// the channel's first rows here, so that what cancels in the end is little beside the squares themselves, and nothing
/// of equal numbers; 0 where that is no number.
template <class T, int V>
struct ShiftedMoments {
  using Acc = Compute<T>;
  Acc shift[V], sum[V], squares[V];
  Acc count;

  template <int U>
  static __device__ Acc shift_of(const Neighbours<T, V> (&loaded)[U], int j) {
    Acc parts[U];
#pragma unroll
    for (int i = 0; i < U; ++i)
      parts[i] = static_cast<Acc>(loaded[i].at[j]) * (Acc(1) / Acc(U));
#pragma unroll
    for (int step = 1; step < U; step *= 2) {
#pragma unroll
      for (int i = 0; i + step < U; i += 2 * step)
        parts[i] += parts[i + step];
    }
    return parts[0] - parts[0] == Acc(0) ? parts[0] : Acc(0);
  }
  template <class Body, int U>
  __device__ void add(const Body&, const Neighbours<T, V> (&loaded)[U]) {
    if (count == Acc(0)) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        shift[j] = shift_of(loaded, j);
    }
    count += Acc(U);
#pragma unroll
    for (int i = 0; i < U; ++i) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Acc distance = static_cast<Acc>(loaded[i].at[j]) - shift[j];
        sum[j] += distance;
        squares[j] += distance * distance;
      }
    }
  }
  __device__ ChannelMoments<Acc> of(int j) const {
    if (count == Acc(0))
      return {};
    const Acc mean = sum[j] / count;
    Acc around = squares[j] - sum[j] * mean;
    if (around != around && sum[j] - sum[j] == Acc(0))  // both do not fit
      around = squares[j];
    return {count, shift[j] + mean, around < Acc(0) ? Acc(0) : around};  // what is not a number stays
  }
};

template <class T>
struct AddToMoments {
  template <int V>
  using Values = Neighbours<T, V>;
  template <int V>
  using Gathered = ShiftedMoments<T, V>;
  const T* x;
  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t) const {
    return *reinterpret_cast<const Values<V>*>(x + offset);
  }
  template <int V>
  __device__ Values<1> one(const Values<V>& values, int j) const {
    return {values.at[j]};
  }
  // The moments of a few values in two passes over registers, then one division for all of them.
  template <int V, int U>
  __device__ void add(ChannelMoments<Compute<T>>& moments, const Neighbours<T, V> (&loaded)[U]) const {
    using Acc = Compute<T>;
    constexpr Acc count = U * V;
    Acc sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < U * V; ++k)
      sum += static_cast<Acc>(loaded[k / V].at[k % V]);
    const Acc mean = sum * (Acc(1) / count);
#pragma unroll
    for (int k = 0; k < U * V; ++k) {
      const Acc distance = static_cast<Acc>(loaded[k / V].at[k % V]) - mean;
      squares += distance * distance;
    }
    moments.merge({count, mean, squares});
  }
};

template <class Acc>
struct FinishMoments {
  BatchNormChannel<Acc> channel;
  __device__ void operator()(std::int64_t c, const ChannelMoments<Acc>& m) const {
    channel.finish(c, m.v[0], m.v[1], m.v[0] > Acc(0) ? m.v[2] / m.v[0] : Acc(0));
  }
};

// Of rows that are normalised each by itself.
template <class Acc>
struct KeepMoments {
  Acc *mean, *inv_std;
  Acc eps;
  __device__ void operator()(std::int64_t row, const ChannelMoments<Acc>& m) const {
    mean[row] = m.v[1];
    inv_std[row] = Acc(1) / sqrt((m.v[0] > Acc(0) ? m.v[2] / m.v[0] : Acc(0)) + eps);
  }
};

template <class Acc>
__global__ void use_running(std::int64_t channels, BatchNormChannel<Acc> channel) {
  start_early();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c < channels)
    channel.finish(c, Acc(0), Acc(0), Acc(0));
}

enum class Behind { nothing, relu, sum_and_relu };

/// Normalised elements and what follows, each rounded as an operator of its own would.
template <class T, Behind behind>
struct Normalise {
  static constexpr int k_blocks_at_once = 3;
  using Acc = Compute<T>;
  const T *x, *residual;
  T* y;
  const Acc *mean, *scale, *shift;

  template <int V>
  struct Values {
    Neighbours<T, V> x, residual;
  };
  template <int W>
  struct Of {
    ChannelNumbers<Acc, W> mean, scale, shift;
  };
  template <int W>
  __device__ Of<W> of(std::int64_t c) const {
    return {ChannelNumbers<Acc, W>(mean + c), ChannelNumbers<Acc, W>(scale + c), ChannelNumbers<Acc, W>(shift + c)};
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    Values<V> values;
    values.x = *reinterpret_cast<const Neighbours<T, V>*>(x + offset);
    if constexpr (behind == Behind::sum_and_relu)
      values.residual = *reinterpret_cast<const Neighbours<T, V>*>(residual + offset);
    return values;
  }
  template <int V, int W>
  __device__ void store(std::int64_t offset, const Values<V>& values, const Of<W>& known) const {
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      made.at[j] = normalised<T>(static_cast<Acc>(values.x.at[j]) - known.mean[j], known.scale[j], known.shift[j]);
      if constexpr (behind == Behind::sum_and_relu)
        made.at[j] = T(static_cast<Acc>(made.at[j]) + static_cast<Acc>(values.residual.at[j]));
      if (behind != Behind::nothing && static_cast<Acc>(made.at[j]) <= Acc(0))
        made.at[j] = T(Acc(0));
    }
    *reinterpret_cast<Neighbours<T, V>*>(y + offset) = made;
  }
};

template <class T>
void forward(const KernelCall& call) {
  using Acc = Compute<T>;
  const auto& how = call.attributes.as<BatchNormAttributes>();
  const ChannelView view = channel_view(call.inputs[0], how.axis);
  if (view.channels == 0)
    return;
  const Workspace workspace(call.queue, sizeof(Acc) * static_cast<std::size_t>(2 * view.channels));
  const BatchNormChannel<Acc> channel(call, workspace.as<Acc>());
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  const T* const residual = call.inputs.size() > 5 ? call.inputs[5].as<T>() : nullptr;
  const cudaStream_t stream = stream_of(call.queue);
  if (how.batch_stats) {
    channel_reduce<ChannelMoments<Acc>, k_neighbours<T>>(
        call.queue, view, aligned_for_vectors(x), "batch_norm", AddToMoments<T>{x}, FinishMoments<Acc>{channel});
  } else {
    use_running<<<static_cast<unsigned>((view.channels + k_block - 1) / k_block), k_block, 0, stream>>>(
        view.channels, channel);
    check_early_launch("batch_norm", stream);
  }
  const auto normalise = [&]<Behind behind>() {
    walk_channels<k_neighbours<T>>(
        view,
        aligned_for_vectors(x, y, residual),
        stream,
        "batch_norm",
        Normalise<T, behind>{x, residual, y, channel.mean, channel.scale, channel.shift});
  };
  if (&call.op != &batch_norm_relu_op)
    normalise.template operator()<Behind::nothing>();
  else if (residual == nullptr)
    normalise.template operator()<Behind::relu>();
  else
    normalise.template operator()<Behind::sum_and_relu>();
}

}  // namespace

void long_row_moments_gpu(const NormForward& norm, const Queue& queue) {
  const AxisLayout& at = norm.rows.at;
  by_floating(norm.dtype, [&]<class T>() {
    using Acc = Compute<T>;
    const auto* const x = static_cast<const T*>(norm.x);
    channel_reduce<ChannelMoments<Acc>, k_neighbours<T>>(
        queue,
        {1, at.outer, at.n, norm.dtype},
        aligned_for_vectors(x),
        "group_norm",
        AddToMoments<T>{x},
        KeepMoments<Acc>{
            static_cast<Acc*>(norm.mean), static_cast<Acc*>(norm.inv_std), static_cast<Acc>(norm.rows.eps)});
  });
}

void batch_norm_gpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { forward<T>(call); });
}

}  // namespace sluice::detail
