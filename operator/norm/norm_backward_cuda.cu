#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

/// A relu behind the batch norm, of which nothing is kept: whether it let an element through is computed again.
template <class T>
struct Passed {
  using Acc = Compute<T>;
  const Acc *scale, *shift;  // null: there was none

  __device__ Acc of(Acc grad, Acc centred, std::int64_t c) const {
    return scale != nullptr && static_cast<Acc>(normalised<T>(centred, scale[c], shift[c])) <= Acc(0) ? Acc(0) : grad;
  }
};

template <class Acc>
__global__ void __launch_bounds__(k_block)
    prepare_passed(std::int64_t channels, BatchNormGradientChannel<Acc> channel, const void* beta, Acc* shift) {
  start_early();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels)
    return;
  channel.scale[c] = channel.scale_of(c);
  shift[c] = load_parameter<Acc>(beta, channel.parameters, c);
}

template <class T>
struct AddGradient {
  template <int V>
  using Values = GradientValues<T, V>;
  const T* dy;
  const T* x;
  const Compute<T>* mean;
  Passed<T> passed;
  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t c) const {
    return {
        *reinterpret_cast<const Neighbours<T, V>*>(dy + offset),
        *reinterpret_cast<const Neighbours<T, V>*>(x + offset),
        c};
  }
  template <int V>
  __device__ Values<1> one(const Values<V>& values, int j) const {
    return {{values.dy.at[j]}, {values.x.at[j]}, values.first + j};
  }
  template <int V, int U>
  __device__ void add(GradientSums<Compute<T>>& sums, const GradientValues<T, V> (&loaded)[U]) const {
#pragma unroll
    for (int k = 0; k < U * V; ++k) {
      const std::int64_t c = loaded[k / V].first;
      const auto centred = static_cast<Compute<T>>(loaded[k / V].x.at[k % V]) - mean[c];
      const auto grad = passed.of(static_cast<Compute<T>>(loaded[k / V].dy.at[k % V]), centred, c);
      sums.v[0] += grad;
      sums.v[1] += grad * centred;
    }
  }
};

template <class Acc>
struct FinishGradient {
  BatchNormGradientChannel<Acc> channel;
  Acc count;
  __device__ void operator()(std::int64_t c, const GradientSums<Acc>& sums) const {
    channel.finish(c, count, sums.v[0], sums.v[1] * channel.inv_std[c]);
  }
};

template <int V, class T, class G, class Acc>
__global__ void __launch_bounds__(k_block) spread(
    G at,
    bool along,
    const T* dy,
    const T* x,
    T* dx,
    const Acc* mean,
    BatchNormGradientChannel<Acc> channel,
    Passed<T> passed) {
  start_early();
  using Vector = Neighbours<T, V>;
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    const Vector values = *reinterpret_cast<const Vector*>(x + offset[0]);
    const Vector grads = *reinterpret_cast<const Vector*>(dy + offset[0]);
    Vector made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const auto c = offset[1] + (along ? j : 0);
      const Acc centred = static_cast<Acc>(values.at[j]) - mean[c];
      const Acc head = passed.of(static_cast<Acc>(grads.at[j]), centred, c);
      const Acc grad = head - channel.mean_dy[c] - centred * channel.slope[c];
      made.at[j] = T(channel.scale[c] * grad);
    }
    *reinterpret_cast<Vector*>(dx + offset[0]) = made;
  }
}

template <class T>
void backward(const KernelCall& call) {
  using Acc = Compute<T>;
  const ChannelView view = channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis);
  if (view.channels == 0)
    return;
  const Workspace workspace(call.queue, sizeof(Acc) * static_cast<std::size_t>(4 * view.channels));
  const BatchNormGradientChannel<Acc> channel(call, workspace.as<Acc>());
  const T* dy = call.inputs[0].as<T>();
  const T* x = call.inputs[1].as<T>();
  const Acc* mean = call.inputs[3].as<Acc>();
  T* dx = call.outputs[0].as<T>();
  const auto count = static_cast<Acc>(view.outer * view.inner);
  const bool aligned = aligned_for_vectors(dy, x, dx);
  Passed<T> passed{};
  if (&call.op == &batch_norm_relu_backward_op) {
    Acc* const shift = workspace.as<Acc>() + 3 * view.channels;
    passed = {channel.scale, shift};
    prepare_passed<<<blocks_for(view.channels), k_block, 0, stream_of(call.queue)>>>(
        view.channels, channel, call.inputs[5].data, shift);
    check_early_launch("batch_norm_relu_backward", stream_of(call.queue));
  }
  channel_reduce<GradientSums<Acc>, k_neighbours<T>>(
      call.queue,
      view,
      aligned,
      "batch_norm_backward",
      AddGradient<T>{dy, x, mean, passed},
      FinishGradient<Acc>{channel, count});
  walk_channels<k_neighbours<T>>(view, aligned, [&]<int V>(const auto& at, bool along, unsigned blocks) {
    spread<V><<<blocks, k_block, 0, stream_of(call.queue)>>>(at, along, dy, x, dx, mean, channel, passed);
    check_early_launch("batch_norm_backward", stream_of(call.queue));
  });
}

}  // namespace

void batch_norm_backward_gpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<T>(call); });
}

}  // namespace sluice::detail
