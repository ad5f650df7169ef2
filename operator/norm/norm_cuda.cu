#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

// Count, mean and sum of squares around it (Welford, 1962; joined as in Chan, Golub and LeVeque, 1979).
template <class Acc>
struct Moments {
  static constexpr int n = 3;
  Acc v[3];
  __device__ void add(Acc value) {
    v[0] += Acc(1);
    const Acc distance = value - v[1];
    v[1] += distance / v[0];
    v[2] += distance * (value - v[1]);
  }
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
  const T* x;
  __device__ void operator()(Moments<Compute<T>>& moments, std::int64_t i, std::int64_t) const {
    moments.add(static_cast<Compute<T>>(x[i]));
  }
};

template <class Acc>
struct FinishMoments {
  BatchNormChannel<Acc> channel;
  __device__ void operator()(std::int64_t c, const Moments<Acc>& m) const {
    channel.finish(c, m.v[0], m.v[1], m.v[0] > Acc(0) ? m.v[2] / m.v[0] : Acc(0));
  }
};

template <class Acc>
__global__ void use_running(std::int64_t channels, BatchNormChannel<Acc> channel) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c < channels)
    channel.finish(c, Acc(0), Acc(0), Acc(0));
}

template <class T, class G, class Acc>
__global__ void normalise(G at, const T* x, T* y, const Acc* mean, const Acc* scale, const Acc* shift) {
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    const auto c = offset[1];
    y[offset[0]] = T((static_cast<Acc>(x[offset[0]]) - mean[c]) * scale[c] + shift[c]);
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
  const cudaStream_t stream = stream_of(call.queue);
  if (how.batch_stats) {
    channel_reduce<Moments<Acc>>(call.queue, view, "batch_norm", AddToMoments<T>{x}, FinishMoments<Acc>{channel});
  } else {
    use_running<<<static_cast<unsigned>((view.channels + k_block - 1) / k_block), k_block, 0, stream>>>(
        view.channels, channel);
    check_launch("batch_norm");
  }
  walk_channels(view, [&](auto at) {
    normalise<<<blocks_for(at.size, 4), k_block, 0, stream>>>(at, x, y, channel.mean, channel.scale, channel.shift);
    check_launch("batch_norm");
  });
}

}  // namespace

void batch_norm_gpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { forward<T>(call); });
}

}  // namespace sluice::detail
