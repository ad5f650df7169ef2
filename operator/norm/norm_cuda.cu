#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

// Count, mean and sum of squares around it, joined as in Chan, Golub and LeVeque (1979).
template <class Acc>
struct Moments {
  static constexpr int n = 3;
  Acc v[3];
  __device__ void merge(const Moments& other) {
    const Acc count = v[0] + other.v[0];
    if (other.v[0] == Acc(0))
      return;
    const Acc share = other.v[0] / count;
    const Acc distance = other.v[1] - v[1];
    v[2] += other.v[2] + distance * distance * v[0] * share;
    v[1] += distance * share;
    v[0] = count;
  }
};

template <class T>
struct AddToMoments {
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
  // The moments of a few values in two passes over registers, then one division for all of them.
  template <int V, int U>
  __device__ void add(Moments<Compute<T>>& moments, const Neighbours<T, V> (&loaded)[U]) const {
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
  __device__ void operator()(std::int64_t c, const Moments<Acc>& m) const {
    channel.finish(c, m.v[0], m.v[1], m.v[0] > Acc(0) ? m.v[2] / m.v[0] : Acc(0));
  }
};

// Of rows that are normalised each by itself.
template <class Acc>
struct KeepMoments {
  Acc *mean, *inv_std;
  Acc eps;
  __device__ void operator()(std::int64_t row, const Moments<Acc>& m) const {
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

/// What follows a normalised element, each rounded as an operator of its own would: a sum, if there is something to
/// add, and relu.
template <class T>
struct NormEnd {
  const T* residual;
  bool relu;

  template <int V>
  __device__ void finish(Neighbours<T, V>& values, std::int64_t offset) const {
    using Acc = Compute<T>;
    if (residual != nullptr) {
      const Neighbours<T, V> others = *reinterpret_cast<const Neighbours<T, V>*>(residual + offset);
#pragma unroll
      for (int j = 0; j < V; ++j)
        values.at[j] = T(static_cast<Acc>(values.at[j]) + static_cast<Acc>(others.at[j]));
    }
    if (!relu)
      return;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (static_cast<Acc>(values.at[j]) <= Acc(0))
        values.at[j] = T(Acc(0));
    }
  }
};

template <int V, class T, class G, class Acc>
__global__ void __launch_bounds__(k_block)
    normalise(G at, bool along, const T* x, T* y, const Acc* mean, const Acc* scale, const Acc* shift, NormEnd<T> end) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    Neighbours<T, V> values = *reinterpret_cast<const Neighbours<T, V>*>(x + offset[0]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const auto c = offset[1] + (along ? j : 0);
      values.at[j] = normalised<T>(static_cast<Acc>(values.at[j]) - mean[c], scale[c], shift[c]);
    }
    end.finish(values, offset[0]);
    *reinterpret_cast<Neighbours<T, V>*>(y + offset[0]) = values;
  }
}

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
  const NormEnd<T> end{call.inputs.size() > 5 ? call.inputs[5].as<T>() : nullptr, &call.op == &batch_norm_relu_op};
  const cudaStream_t stream = stream_of(call.queue);
  if (how.batch_stats) {
    channel_reduce<Moments<Acc>, k_neighbours<T>>(
        call.queue, view, aligned_for_vectors(x), "batch_norm", AddToMoments<T>{x}, FinishMoments<Acc>{channel});
  } else {
    use_running<<<static_cast<unsigned>((view.channels + k_block - 1) / k_block), k_block, 0, stream>>>(
        view.channels, channel);
    check_early_launch("batch_norm", stream);
  }
  walk_channels<k_neighbours<T>>(
      view, aligned_for_vectors(x, y, end.residual), [&]<int V>(const auto& at, bool along, unsigned blocks) {
        normalise<V><<<blocks, k_block, 0, stream>>>(at, along, x, y, channel.mean, channel.scale, channel.shift, end);
        check_early_launch("batch_norm", stream);
      });
}

}  // namespace

void long_row_moments_gpu(const NormForward& norm, const Queue& queue) {
  const AxisLayout& at = norm.rows.at;
  by_floating(norm.dtype, [&]<class T>() {
    using Acc = Compute<T>;
    const auto* const x = static_cast<const T*>(norm.x);
    channel_reduce<Moments<Acc>, k_neighbours<T>>(
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
