#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/conv/patches.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>

namespace sluice::detail {
namespace {

template <class T>
struct ShallowForward {
  Patches patches;
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  int outputs;
  bool relu;
  bool vectors;  // a thread's channels are neighbours that can be written at once
};

constexpr int k_weight_pitch = k_shallow_channels + k_shallow_own;

// weights[k][channel] of the block's channels, the last dimension of memory being k.
template <class Acc, class T>
__device__ void take_weights(const ShallowForward<T>& p, int first_channel, Acc* weights) {
  const int depth = p.patches.depth;
  for (int i = static_cast<int>(threadIdx.x); i < k_shallow_channels * depth; i += k_shallow_block) {
    const int channel = i / depth, k = i % depth;
    const bool inside = first_channel + channel < p.outputs;
    weights[k * k_weight_pitch + channel] =
        inside ? static_cast<Acc>(p.weight[(first_channel + channel) * depth + k]) : Acc(0);
  }
}

template <class Acc, class T>
__device__ T finished(const ShallowForward<T>& p, Acc sum, Acc bias) {
  sum += bias;
  return T(p.relu && sum <= Acc(0) ? Acc(0) : sum);  // NaN stays
}

// What a thread has of y: `many` pixels, `step` apart, of neighbouring channels.
template <bool last, int many, class T, class Acc>
__device__ void write_sums(
    const ShallowForward<T>& p,
    const Acc (&sums)[many][k_shallow_own],
    const Acc (&bias)[k_shallow_own],
    int channel,
    std::int32_t first,
    int step) {
  constexpr int own = k_shallow_own;
#pragma unroll
  for (int i = 0; i < many; ++i) {
    const std::int32_t pixel = first + i * step;
    if (pixel >= p.patches.pixels || channel >= p.outputs)
      continue;
    Neighbours<T, own> made;
#pragma unroll
    for (int j = 0; j < own; ++j)
      made.at[j] = finished(p, sums[i][j], bias[j]);
    const std::int32_t plane = p.patches.plane.value(), image = p.patches.plane.divide(pixel);
    T* const to = last ? p.y + pixel * p.outputs + channel
                       : p.y + (image * p.outputs + channel) * plane + (pixel - image * plane);
    if (last && p.vectors) {
      *reinterpret_cast<Neighbours<T, own>*>(to) = made;
      continue;
    }
#pragma unroll
    for (int j = 0; j < own; ++j) {
      if (channel + j < p.outputs)
        to[last ? j : j * plane] = made.at[j];
    }
  }
}

// A block has a tile of pixels and channels, a thread some pixels of neighbouring channels. Neighbouring threads have
// what lies side by side in y: with `last` channels, otherwise pixels.
template <bool last, class T>
__global__ void __launch_bounds__(k_shallow_block) shallow_forward_kernel(ShallowForward<T> p) {
  start_early();
  using Acc = Compute<T>;
  constexpr int pixels = k_shallow_pixels<Acc>, own = k_shallow_own, many = pixels / 32;
  constexpr int quads = k_shallow_channels / own;
  alignas(32) __shared__ Acc tile[k_shallow_depth * pixels];
  alignas(32) __shared__ Acc weights[k_shallow_depth * k_weight_pitch];
  const int first_channel = static_cast<int>(blockIdx.y) * k_shallow_channels;
  const auto first = static_cast<std::int32_t>(blockIdx.x) * pixels;
  const int thread = static_cast<int>(threadIdx.x);
  const int quad = last ? thread % quads : thread / 32, channel = first_channel + quad * own;
  const int start = last ? thread / quads * many : thread % 32, step = last ? 1 : 32;
  Acc bias[own];
#pragma unroll
  for (int j = 0; j < own; ++j)
    bias[j] = p.bias != nullptr && channel + j < p.outputs ? static_cast<Acc>(p.bias[channel + j]) : Acc(0);
  take_weights<Acc>(p, first_channel, weights);
  unfold_patches(p.patches, p.x, first, p.patches.depth, tile);
  __syncthreads();

  Acc sums[many][own] = {};
#pragma unroll 3
  for (int k = 0; k < p.patches.depth; ++k) {
    const auto w = *reinterpret_cast<const Neighbours<Acc, own>*>(weights + k * k_weight_pitch + quad * own);
    Neighbours<Acc, many> values;
    if constexpr (last) {
      values = *reinterpret_cast<const Neighbours<Acc, many>*>(tile + k * pixels + start);
    } else {
#pragma unroll
      for (int i = 0; i < many; ++i)
        values.at[i] = tile[k * pixels + start + i * step];
    }
#pragma unroll
    for (int i = 0; i < many; ++i) {
#pragma unroll
      for (int j = 0; j < own; ++j)
        sums[i][j] += values.at[i] * w.at[j];
    }
  }

  write_sums<last>(p, sums, bias, channel, first + start, step);
}

}  // namespace

void shallow_forward_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& d, bool relu) {
  by_floating(g.dtype, [&]<class T>() {
    const ShallowForward<T> p{
        Patches(g, order),
        static_cast<const T*>(d.x),
        static_cast<const T*>(d.weight),
        static_cast<const T*>(d.bias),
        static_cast<T*>(d.y),
        static_cast<int>(g.outputs),
        relu,
        g.outputs % k_shallow_own == 0 && starts_neighbours<T, k_shallow_own>(d.y)};
    constexpr int pixels = k_shallow_pixels<Compute<T>>;
    const dim3 grid(
        static_cast<unsigned>((p.patches.pixels + pixels - 1) / pixels),
        static_cast<unsigned>((g.outputs + k_shallow_channels - 1) / k_shallow_channels));
    if (order == MemoryOrder::channels_last)
      shallow_forward_kernel<true><<<grid, k_shallow_block, 0, stream_of(queue)>>>(p);
    else
      shallow_forward_kernel<false><<<grid, k_shallow_block, 0, stream_of(queue)>>>(p);
    check_early_launch("convolution", stream_of(queue));
  });
}

}  // namespace sluice::detail
