// Group norm on a GPU. A block a row serves where rows fit registers or there are many; few long ones are cut into
// pieces: statistics first, then one pass over the elements.
#include <algorithm>

#include <sluice/operator/floating.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// y = (x - mean) * scale + shift, scale and shift a number a plane of a channel.
template <class C>
__global__ void __launch_bounds__(k_block) prepare_planes(
    NormRows rows, std::int64_t planes, const C* inv_std, NormParameter gamma, NormParameter beta, C* scale, C* shift) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < planes; p += step) {
    const std::int64_t channel = p % (rows.groups * rows.channels);
    scale[p] = inv_std[p / rows.channels] * load_parameter<C>(gamma.data, gamma.dtype, channel);
    shift[p] = load_parameter<C>(beta.data, beta.dtype, channel);
  }
}

template <class T>
struct ScalePlanes {
  using C = Compute<T>;
  std::int64_t each;  // planes of a row
  const T* x;
  T* y;
  const C *mean, *scale, *shift;

  template <int V>
  using Values = Neighbours<T, V>;
  template <int W>
  struct Of {
    C mean[W], scale[W], shift[W];
  };
  template <int W>
  __device__ Of<W> of(std::int64_t plane) const {
    Of<W> known;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      known.mean[j] = mean[(plane + j) / each];
      known.scale[j] = scale[plane + j];
      known.shift[j] = shift[plane + j];
    }
    return known;
  }
  template <int V>
  __device__ Values<V> load(std::int64_t offset) const {
    return *reinterpret_cast<const Values<V>*>(x + offset);
  }
  template <int V, int W>
  __device__ void store(std::int64_t offset, Neighbours<T, V> values, const Of<W>& known) const {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int k = W == 1 ? 0 : j;
      values.at[j] = T((static_cast<C>(values.at[j]) - known.mean[k]) * known.scale[k] + known.shift[k]);
    }
    *reinterpret_cast<Neighbours<T, V>*>(y + offset) = values;
  }
};

template <class T>
void in_pieces(const NormForward& norm, const Queue& queue) {
  using C = Compute<T>;
  const NormRows& rows = norm.rows;
  const std::int64_t planes = rows.at.outer * rows.channels;
  const auto* const x = static_cast<const T*>(norm.x);
  auto* const y = static_cast<T*>(norm.y);
  const auto* const mean = static_cast<const C*>(norm.mean);
  const Workspace workspace(queue, sizeof(C) * static_cast<std::size_t>(2 * planes));
  C *const scale = workspace.as<C>(), *const shift = scale + planes;
  const cudaStream_t stream = stream_of(queue);
  long_row_moments_gpu(norm, queue);
  prepare_planes<<<blocks_for(planes), k_block, 0, stream>>>(
      rows, planes, static_cast<const C*>(norm.inv_std), norm.gamma, norm.beta, scale, shift);
  check_launch("group_norm");
  const ChannelView view{1, planes, rows.span, norm.dtype};
  walk_channels<k_neighbours<T>>(
      view, aligned_for_vectors(x, y), stream, "group_norm", ScalePlanes<T>{rows.channels, x, y, mean, scale, shift});
}

}  // namespace

void group_norm_gpu(const KernelCall& call) {
  constexpr std::int64_t k_longest = 8192, k_many = 1024;  // in registers; rows that keep a large GPU busy
  const NormForward norm(call);
  if (norm.rows.at.n <= k_longest || norm.rows.count() >= k_many || call.inputs[0].size == 0)
    return row_norm_gpu(call);
  by_floating(norm.dtype, [&]<class T>() { in_pieces<T>(norm, call.queue); });
}

}  // namespace sluice::detail
