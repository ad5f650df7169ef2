#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {
namespace {

/// A relu behind the batch norm, if there was one, of which nothing is kept: whether it let an element through is
/// computed again.
template <class T, bool relu>
struct Passed {
  using Acc = Compute<T>;
  const Acc *scale, *shift;

  static __device__ bool lets(Acc centred, Acc by, Acc and_then) {
    return !(static_cast<Acc>(normalised<T>(centred, by, and_then)) <= Acc(0));
  }
  __device__ Acc of(Acc grad, Acc centred, std::int64_t c) const {
    if constexpr (relu)
      return lets(centred, scale[c], shift[c]) ? grad : Acc(0);
    return grad;
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

template <class T, int V, class Loaded, int U, class Of>
__device__ void add_up(
    GradientSums<Compute<T>>& sums, const Loaded (&loaded)[U], const Compute<T>* mean, const Of& of) {
#pragma unroll
  for (int k = 0; k < U * V; ++k) {
    const std::int64_t c = loaded[k / V].first;
    const auto centred = static_cast<Compute<T>>(loaded[k / V].x.at[k % V]) - mean[c];
    const auto grad = of(static_cast<Compute<T>>(loaded[k / V].dy.at[k % V]), centred, c);
    sums.v[0] += grad;
    sums.v[1] += grad * centred;
  }
}

template <class T, bool relu>
struct AddGradient {
  static constexpr int k_loads_at_once = relu ? 4 : 2, k_blocks_at_once = relu ? 0 : 4;
  template <int V>
  using Values = GradientValues<T, V>;
  const T* dy;
  const T* x;
  const Compute<T>* mean;
  Passed<T, relu> passed;
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
    const auto of = [this](auto grad, auto centred, std::int64_t c) { return passed.of(grad, centred, c); };
    add_up<T, V>(sums, loaded, mean, of);
  }
};

/// What comes of a head of the relu, once it is settled, is the gradient `dy`.
template <class T, int V>
struct HeadValues : GradientValues<T, V> {
  Neighbours<T, V> other, result;
  std::int64_t offset;
};

/// One pass for the head of a relu whose result was kept: the sum of two heads, or one, where that result is not 0,
/// written and added up.
template <class T>
struct AddLetThrough {
  using Acc = Compute<T>;
  template <int V>
  using Values = HeadValues<T, V>;
  static constexpr int k_loads_at_once = 2;
  const T *dy, *other, *result, *x;  // other: null where there is one head
  T* let_through;
  const Acc* mean;

  template <int V>
  static __device__ Neighbours<T, V> neighbours(const T* from) {
    return *reinterpret_cast<const Neighbours<T, V>*>(from);
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t c) const {
    Values<V> values;
    values.dy = neighbours<V>(dy + offset);
    values.x = neighbours<V>(x + offset);
    values.first = c;
    if (other != nullptr)
      values.other = neighbours<V>(other + offset);
    values.result = neighbours<V>(result + offset);
    values.offset = offset;
    return values;
  }
  template <int V>
  __device__ void settle(HeadValues<T, V>& values) const {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      T& head = values.dy.at[j];
      if (other != nullptr)
        head = T(static_cast<Acc>(head) + static_cast<Acc>(values.other.at[j]));
      if (static_cast<Acc>(values.result.at[j]) <= Acc(0))  // NaN passes the head on
        head = T(Acc(0));
    }
    *reinterpret_cast<Neighbours<T, V>*>(let_through + values.offset) = values.dy;
  }
  template <int V>
  __device__ Values<1> one(const HeadValues<T, V>& values, int j) const {
    return {{{values.dy.at[j]}, {values.x.at[j]}, values.first + j}, {}, {}, 0};
  }
  template <int V, int U>
  __device__ void add(GradientSums<Acc>& sums, const HeadValues<T, V> (&loaded)[U]) const {
    add_up<T, V>(sums, loaded, mean, [](Acc grad, Acc, std::int64_t) { return grad; });
  }
};

/// The head alone, where heads or result begin at no vector: how the sums are cut must not hang on that.
template <class T>
struct WriteLetThrough {
  AddLetThrough<T> pass;

  template <int V>
  using Values = HeadValues<T, V>;
  template <int W>
  struct Of {};
  template <int W>
  __device__ Of<W> of(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    return pass.template load<V>(offset, 0);
  }
  template <int V, int W>
  __device__ void store(std::int64_t, HeadValues<T, V> values, const Of<W>&) const {
    pass.settle(values);
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

template <class T, bool relu>
struct Spread {
  static constexpr int k_blocks_at_once = relu ? 2 : 3;
  using Acc = Compute<T>;
  const T *dy, *x;
  T* dx;
  const Acc* mean;
  BatchNormGradientChannel<Acc> channel;
  Passed<T, relu> passed;

  template <int V>
  struct Values {
    Neighbours<T, V> dy, x;
  };
  template <int W>
  struct Of {
    ChannelNumbers<Acc, W> mean, scale, shift, mean_dy, slope;
  };
  template <int W>
  __device__ Of<W> of(std::int64_t c) const {
    return {
        ChannelNumbers<Acc, W>(mean + c),
        ChannelNumbers<Acc, W>(channel.scale + c),
        ChannelNumbers<Acc, W>(relu ? passed.shift + c : nullptr),
        ChannelNumbers<Acc, W>(channel.mean_dy + c),
        ChannelNumbers<Acc, W>(channel.slope + c)};
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    return {
        *reinterpret_cast<const Neighbours<T, V>*>(dy + offset),
        *reinterpret_cast<const Neighbours<T, V>*>(x + offset)};
  }
  template <int V, int W>
  __device__ void store(std::int64_t offset, const Values<V>& values, const Of<W>& known) const {
    Neighbours<T, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Acc centred = static_cast<Acc>(values.x.at[j]) - known.mean[j];
      Acc head = static_cast<Acc>(values.dy.at[j]);
      if (relu && !passed.lets(centred, known.scale[j], known.shift[j]))
        head = Acc(0);
      made.at[j] = T(known.scale[j] * (head - known.mean_dy[j] - centred * known.slope[j]));
    }
    *reinterpret_cast<Neighbours<T, V>*>(dx + offset) = made;
  }
};

/// What every call of backward() has.
template <class T>
struct BackwardCall {
  using Acc = Compute<T>;
  const KernelCall& call;
  ChannelView view;
  Workspace workspace;
  BatchNormGradientChannel<Acc> channel;
  const T *dy, *x;
  const Acc* mean;
  T* dx;

  explicit BackwardCall(const KernelCall& of)
      : call(of),
        view(channel_view(of.inputs[0], of.attributes.as<BatchNormAttributes>().axis)),
        workspace(of.queue, sizeof(Acc) * static_cast<std::size_t>(4 * view.channels)),
        channel(of, workspace.template as<Acc>()),
        dy(of.inputs[0].as<T>()),
        x(of.inputs[1].as<T>()),
        mean(of.inputs[3].as<Acc>()),
        dx(of.outputs[0].as<T>()) {}

  template <class Add, bool relu>
  void run(const T* head, const Add& add, const Passed<T, relu>& passed) const {
    const auto count = static_cast<Acc>(view.outer * view.inner);
    const bool aligned = aligned_for_vectors(head, x, dx);
    channel_reduce<GradientSums<Acc>, k_neighbours<T>>(
        call.queue, view, aligned, call.op.name, add, FinishGradient<Acc>{channel, count});
    walk_channels<k_neighbours<T>>(
        view, aligned, stream_of(call.queue), call.op.name, Spread<T, relu>{head, x, dx, mean, channel, passed});
  }
  template <bool relu>
  void add_and_spread(const T* head, const Passed<T, relu>& passed) const {
    run(head, AddGradient<T, relu>{head, x, mean, passed}, passed);
  }
};

template <class T>
void backward(const KernelCall& call) {
  using Acc = Compute<T>;
  const BackwardCall<T> of(call);
  if (of.view.channels == 0)
    return;
  if (&call.op == &batch_norm_add_relu_backward_op) {
    const T* const result = call.inputs[5].as<T>();
    const T* const other = call.inputs.size() > 6 ? call.inputs[6].as<T>() : nullptr;
    T* const head = call.outputs[3].as<T>();
    const AddLetThrough<T> add{of.dy, other, result, of.x, head, of.mean};
    if (aligned_for_vectors(of.dy, other, result))
      return of.run(head, add, Passed<T, false>{});
    const ChannelView flat{1, 1, of.view.size(), of.view.dtype};
    walk_channels<1>(flat, false, stream_of(call.queue), call.op.name, WriteLetThrough<T>{add});
    return of.add_and_spread(head, Passed<T, false>{});
  }
  if (&call.op != &batch_norm_relu_backward_op)
    return of.add_and_spread(of.dy, Passed<T, false>{});
  Acc* const shift = of.workspace.template as<Acc>() + 3 * of.view.channels;
  const auto blocks = static_cast<unsigned>((of.view.channels + k_block - 1) / k_block);  // each channel has a thread
  prepare_passed<<<blocks, k_block, 0, stream_of(call.queue)>>>(
      of.view.channels, of.channel, call.inputs[5].data, shift);
  check_early_launch("batch_norm_relu_backward", stream_of(call.queue));
  of.add_and_spread(of.dy, Passed<T, true>{of.channel.scale, shift});
}

}  // namespace

void batch_norm_backward_gpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { backward<T>(call); });
}

}  // namespace sluice::detail
