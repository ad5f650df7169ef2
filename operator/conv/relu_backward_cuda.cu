#include <sluice/operator/conv/masked.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>

namespace sluice::detail {
namespace {

// One pass: the head where the result is not 0, written and added up.
template <class T>
struct MaskAndAdd {
  template <int V>
  using Values = Neighbours<T, V>;
  const T* dy;
  const T* y;
  T* dz;

  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t) const {
    Values<V> head = *reinterpret_cast<const Values<V>*>(dy + offset);
    const Values<V> result = *reinterpret_cast<const Values<V>*>(y + offset);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (static_cast<Compute<T>>(result.at[j]) <= Compute<T>(0))  // NaN passes the head on
        head.at[j] = T(0.0f);
    }
    *reinterpret_cast<Values<V>*>(dz + offset) = head;
    return head;
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

}  // namespace

void convolution_relu_backward_gpu(const KernelCall& call) {
  const TensorView& result = call.inputs[1];
  const Shape& shape = result.shape;
  ChannelView view{shape[0], shape[1], shape[2] * shape[3], result.dtype};
  if (order_of(shape, result.strides) == MemoryOrder::channels_last)
    view = {shape[0] * shape[2] * shape[3], shape[1], 1, result.dtype};
  by_floating(result.dtype, [&]<class T>() {
    const T* const dy = call.inputs[0].as<T>();
    const T* const y = result.as<T>();
    T* const dz = call.outputs[0].as<T>();
    channel_reduce<ChannelSum<Compute<T>>, k_neighbours<T>>(
        call.queue,
        view,
        aligned_for_vectors(dy, y, dz),
        "convolution_relu_backward",
        MaskAndAdd<T>{dy, y, dz},
        WriteChannelSum<T>{call.outputs.size() > 1 ? call.outputs[1].as<T>() : nullptr});
  });
}

void convolution_relu_backward_weights_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = relu_backward_weights_geometry(call);
  if (!is_shallow(g, ConvolutionPass::backward_weights))
    return mask_then_weights(call, convolution_relu_backward_gpu, convolution_backward_weights_gpu);
  void* const bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  const ConvolutionData data{
      .x = call.inputs[0].data, .weight = call.outputs[0].data, .y = call.inputs[1].data, .bias_grad = bias};
  shallow_weights_gpu(call.queue, g, order_in(call), data, call.inputs[2].data);
}

}  // namespace sluice::detail
