#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

template <class Acc>
struct GradientSums {
  static constexpr int n = 2;
  Acc v[2];  // of dy, of dy (x - mean)
  __device__ void merge(const GradientSums& other) {
    v[0] += other.v[0];
    v[1] += other.v[1];
  }
};

template <class T>
struct AddGradient {
  const T* dy;
  const T* x;
  const Compute<T>* mean;
  __device__ void operator()(GradientSums<Compute<T>>& sums, std::int64_t i, std::int64_t c) const {
    const auto grad = static_cast<Compute<T>>(dy[i]);
    sums.v[0] += grad;
    sums.v[1] += grad * (static_cast<Compute<T>>(x[i]) - mean[c]);
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

template <class T, class G, class Acc>
__global__ void spread(G at, const T* dy, const T* x, T* dx, const Acc* mean, BatchNormGradientChannel<Acc> channel) {
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    const auto c = offset[1];
    const Acc centred = static_cast<Acc>(x[offset[0]]) - mean[c];
    const Acc grad = static_cast<Acc>(dy[offset[0]]) - channel.mean_dy[c] - centred * channel.slope[c];
    dx[offset[0]] = T(channel.scale[c] * grad);
  }
}

template <class T>
void backward(const KernelCall& call) {
  using Acc = Compute<T>;
  const ChannelView view = channel_view(call.inputs[0], call.attributes.as<BatchNormAttributes>().axis);
  if (view.channels == 0)
    return;
  const Workspace workspace(call.queue, sizeof(Acc) * static_cast<std::size_t>(3 * view.channels));
  const BatchNormGradientChannel<Acc> channel(call, workspace.as<Acc>());
  const T* dy = call.inputs[0].as<T>();
  const T* x = call.inputs[1].as<T>();
  const Acc* mean = call.inputs[3].as<Acc>();
  T* dx = call.outputs[0].as<T>();
  const auto count = static_cast<Acc>(view.outer * view.inner);
  channel_reduce<GradientSums<Acc>>(
      call.queue, view, "batch_norm_backward", AddGradient<T>{dy, x, mean}, FinishGradient<Acc>{channel, count});
  walk_channels(view, [&](auto at) {
    spread<<<blocks_for(at.size, 4), k_block, 0, stream_of(call.queue)>>>(at, dy, x, dx, mean, channel);
    check_launch("batch_norm_backward");
  });
}

}  // namespace

void batch_norm_backward_gpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<T>(call); });
}

}  // namespace sluice::detail
