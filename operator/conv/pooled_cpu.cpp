#include <algorithm>
#include <utility>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/pool/window.h>
#include <sluice/operator/simd/block_rows.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

using simd::k_masked_place;

PoolGeometry pool_of(const PooledGeometry& p) {
  PoolGeometry pool{.planes = p.g.images * p.g.outputs};
  for (int axis = 0; axis < 2; ++axis) {
    pool.in[axis] = p.g.out[axis];
    pool.out[axis] = p.out[axis];
    pool.kernel[axis] = p.kernel[axis];
    pool.stride[axis] = p.stride[axis];
  }
  return pool;
}

std::size_t bytes_of(const ConvolutionGeometry& g) {
  return static_cast<std::size_t>(g.y_shape().size()) * size_of(g.dtype);
}

// Calls body(plane, oy, ox, window, place) for every window; places stand channels last.
template <class Body>
void for_each_window(const PooledGeometry& p, std::uint8_t* places, Body&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, p.g.out_plane()));
  parallel_for(p.g.images * p.g.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / p.g.outputs, channel = plane % p.g.outputs;
      for (std::int64_t o = 0; o < p.out_plane(); ++o) {
        std::uint8_t& place = places[(image * p.out_plane() + o) * p.g.outputs + channel];
        body(plane, o / p.out[1], o % p.out[1], plane * p.out_plane() + o, place);
      }
    }
  });
}

template <class T>
void pool(const PooledGeometry& p, const T* y, const PooledData& data) {
  const PoolGeometry windows = pool_of(p);
  T* const maxima = static_cast<T*>(data.maxima);
  for_each_window(
      p,
      data.places,
      [&](std::int64_t plane, std::int64_t oy, std::int64_t ox, std::int64_t window, std::uint8_t& place) {
        const T* const from = y + plane * p.g.out_plane();
        const std::int32_t at = max_of_window<Compute<T>>(windows, from, oy, ox);
        maxima[window] = from[at];
        const std::int64_t line = at / p.g.out[1] - oy * p.stride[0], column = at % p.g.out[1] - ox * p.stride[1];
        const bool masked = static_cast<Compute<T>>(from[at]) <= Compute<T>{};
        place = masked ? k_masked_place : static_cast<std::uint8_t>(line * p.kernel[1] + column);
      });
}

// What relu and pooling leave of the gradients of maxima, in dy, which is zero.
template <class T>
void spread(const PooledGeometry& p, const PooledData& data, T* dy) {
  const T* const heads = static_cast<const T*>(data.maxima);
  for_each_window(
      p,
      data.places,
      [&](std::int64_t plane, std::int64_t oy, std::int64_t ox, std::int64_t window, std::uint8_t place) {
        if (place >= p.kernel[0] * p.kernel[1])  // masked; a graph file may bring any number
          return;
        const std::int64_t line = oy * p.stride[0] + place / p.kernel[1], column = ox * p.stride[1];
        dy[plane * p.g.out_plane() + line * p.g.out[1] + column + place % p.kernel[1]] = heads[window];
      });
}

}  // namespace

void convolution_relu_pool_cpu(const KernelCall& call) {
  const PooledGeometry p = pooled_geometry(
      "convolution_relu_pool",
      call.inputs[0].shape,
      call.inputs[1].shape,
      call.inputs[0].dtype,
      call.attributes.as<PooledConvolutionAttributes>());
  PooledData data{
      .convolution = {.x = call.inputs[0].data, .weight = call.inputs[1].data},
      .maxima = call.outputs[0].data,
      .places = call.outputs[1].as<std::uint8_t>()};
  if (call.inputs.size() > 2)
    data.convolution.bias = call.inputs[2].data;
  if (pooled_forward_onednn(call.queue, p, data))
    return;
  const Workspace y(call.queue, bytes_of(p.g));
  data.convolution.y = y.data();
  data.convolution.relu = true;
  convolution_pass_cpu(call.queue, ConvolutionPass::forward, p.g, data.convolution);
  by_floating(p.g.dtype, [&]<class T>() { pool(p, y.as<const T>(), data); });
}

void convolution_relu_pool_backward_cpu(const KernelCall& call) {
  const auto& how = call.attributes.as<PooledConvolutionAttributes>();
  const TensorView& x = call.inputs[2];
  const PooledGeometry p =
      pooled_geometry("convolution_relu_pool_backward", x.shape, call.inputs[3].shape, x.dtype, how);
  PooledData data{
      .convolution = {.x = x.data, .weight = call.outputs[0].data},
      .maxima = call.inputs[0].data,
      .places = call.inputs[1].as<std::uint8_t>()};
  if (how.bias)
    data.convolution.bias_grad = call.outputs[1].data;
  if (how.data)
    data.of_x = {.x = call.outputs.back().data, .weight = call.inputs[3].data};
  if (pooled_backward_onednn(call.queue, p, data))
    return;
  const Workspace dy(call.queue, bytes_of(p.g));
  std::fill_n(dy.as<char>(), dy.bytes(), char{0});
  by_floating(p.g.dtype, [&]<class T>() { spread(p, data, dy.as<T>()); });
  // As convolution_relu_backward adds it up.
  if (void* const bias = std::exchange(data.convolution.bias_grad, nullptr))
    channel_sum_cpu({p.g.images, p.g.outputs, p.g.out_plane(), p.g.dtype}, dy.data(), bias);
  data.convolution.y = data.of_x.y = dy.data();
  convolution_pass_cpu(call.queue, ConvolutionPass::backward_weights, p.g, data.convolution);
  if (how.data)
    convolution_pass_cpu(call.queue, ConvolutionPass::backward_data, p.g, data.of_x);
}

}  // namespace sluice::detail
