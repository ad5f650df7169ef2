// Group norm's gradient on a GPU: sums over each plane of a channel, of them those of the groups and the gradients of
// gamma and beta, then one pass over the elements.
#include <algorithm>

#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/norm/norm_cuda.cuh>

namespace sluice::detail {

namespace {

template <class T>
struct AddPlane {
  template <int V>
  using Values = GradientValues<T, V>;
  const T *dy, *x;
  const Compute<T>*mean, *inv_std;
  std::int64_t each;  // planes of a group

  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t plane) const {
    return {
        *reinterpret_cast<const Neighbours<T, V>*>(dy + offset),
        *reinterpret_cast<const Neighbours<T, V>*>(x + offset),
        plane};
  }
  template <int V>
  __device__ Values<1> one(const Values<V>& values, int j) const {
    return {{values.dy.at[j]}, {values.x.at[j]}, values.first + j};
  }
  template <int V, int U>
  __device__ void add(GradientSums<Compute<T>>& sums, const GradientValues<T, V> (&loaded)[U]) const {
    const std::int64_t row = loaded[0].first / each;
    const Compute<T> center = mean[row], scale = inv_std[row];
#pragma unroll
    for (int k = 0; k < U * V; ++k) {
      const auto grad = static_cast<Compute<T>>(loaded[k / V].dy.at[k % V]);
      sums.v[0] += grad;
      sums.v[1] += grad * ((static_cast<Compute<T>>(loaded[k / V].x.at[k % V]) - center) * scale);
    }
  }
};

// Sums of dy of all planes, then those of the other.
template <class C>
struct KeepSums {
  C* at;
  std::int64_t planes;
  __device__ void operator()(std::int64_t plane, const GradientSums<C>& sums) const {
    at[plane] = sums.v[0];
    at[planes + plane] = sums.v[1];
  }
};

// dx = dy * scale - offset - (x - mean) * slope, a scale a plane, an offset and a slope a row.
template <class C>
struct GroupCoefficients {
  C *scale, *offset, *slope;
};

// A warp a row.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    join_planes(NormRows rows, const C* sums, const C* inv_std, NormParameter gamma, GroupCoefficients<C> to) {
  const Group group(k_warp);
  const std::int64_t planes = rows.at.outer * rows.channels;
  for (std::int64_t row = group.index; row < rows.at.outer; row += group.count) {
    GradientSums<C> total{};
    for (std::int64_t c = group.lane; c < rows.channels; c += k_warp) {
      const std::int64_t plane = row * rows.channels + c;
      const C by = load_parameter<C>(gamma.data, gamma.dtype, row % rows.groups * rows.channels + c);
      total.merge({by * sums[plane], by * sums[planes + plane]});
      to.scale[plane] = by * inv_std[row];
    }
    total = join_group(total, k_warp, [](GradientSums<C> a, const GradientSums<C>& b) {
      a.merge(b);
      return a;
    });
    if (group.lane == 0) {
      const C count = static_cast<C>(rows.at.n);
      to.offset[row] = total.v[0] / count * inv_std[row];
      to.slope[row] = total.v[1] / count * inv_std[row] * inv_std[row];
    }
  }
}

// Of each channel the sums over all samples, in their order.
template <class C>
__global__ void __launch_bounds__(k_group_block)
    join_samples(std::int64_t samples, std::int64_t channels, const C* sums, NormParameter gamma, NormParameter beta) {
  const Group group(k_warp);
  for (std::int64_t c = group.index; c < channels; c += group.count) {
    GradientSums<C> total{};
    for (std::int64_t sample = group.lane; sample < samples; sample += k_warp) {
      const std::int64_t plane = sample * channels + c;
      total.merge({sums[plane], sums[samples * channels + plane]});
    }
    total = join_group(total, k_warp, [](GradientSums<C> a, const GradientSums<C>& b) {
      a.merge(b);
      return a;
    });
    if (group.lane == 0) {
      store_parameter(beta.data, beta.dtype, c, total.v[0]);
      store_parameter(gamma.data, gamma.dtype, c, total.v[1]);
    }
  }
}

template <class T>
struct SpreadGroup {
  using C = Compute<T>;
  std::int64_t each;  // planes of a row
  const T *dy, *x;
  T* dx;
  const C* mean;
  GroupCoefficients<C> by;

  template <int V>
  struct Values {
    Neighbours<T, V> dy, x;
  };
  template <int W>
  struct Of {
    C mean[W], scale[W], offset[W], slope[W];
  };
  template <int W>
  __device__ Of<W> of(std::int64_t plane) const {
    Of<W> known;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const std::int64_t row = (plane + j) / each;
      known.mean[j] = mean[row];
      known.scale[j] = by.scale[plane + j];
      known.offset[j] = by.offset[row];
      known.slope[j] = by.slope[row];
    }
    return known;
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
      const int k = W == 1 ? 0 : j;
      const C centred = static_cast<C>(values.x.at[j]) - known.mean[k];
      made.at[j] = T(static_cast<C>(values.dy.at[j]) * known.scale[k] - known.offset[k] - centred * known.slope[k]);
    }
    *reinterpret_cast<Neighbours<T, V>*>(dx + offset) = made;
  }
};

template <class T>
void backward(const NormBackward& norm, const Queue& queue) {
  using C = Compute<T>;
  const NormRows& rows = norm.rows;
  const std::int64_t count = rows.at.outer, planes = count * rows.channels, channels = rows.parameters();
  if (channels == 0)
    return;
  const auto* const dy = static_cast<const T*>(norm.dy);
  const auto* const x = static_cast<const T*>(norm.x);
  auto* const dx = static_cast<T*>(norm.dx);
  const auto* const mean = static_cast<const C*>(norm.mean);
  const auto* const inv_std = static_cast<const C*>(norm.inv_std);
  const Workspace workspace(queue, sizeof(C) * static_cast<std::size_t>(3 * planes + 2 * count));
  C* const sums = workspace.as<C>();
  const GroupCoefficients<C> of{sums + 2 * planes, sums + 3 * planes, sums + 3 * planes + count};
  const ChannelView view{1, planes, rows.channels == 0 ? 0 : rows.at.n / rows.channels, norm.dtype};
  const char* const name = "group_norm_backward";
  const bool aligned = aligned_for_vectors(dy, x, dx);
  const cudaStream_t stream = stream_of(queue);
  channel_reduce<GradientSums<C>, k_neighbours<T>>(
      queue, view, aligned, name, AddPlane<T>{dy, x, mean, inv_std, rows.channels}, KeepSums<C>{sums, planes});
  join_samples<<<blocks_for_groups(channels, k_warp), k_group_block, 0, stream>>>(
      planes / channels, channels, sums, norm.gamma_grad, norm.beta_grad);
  check_launch(name);
  if (view.size() == 0)
    return;
  join_planes<<<blocks_for_groups(count, k_warp), k_group_block, 0, stream>>>(rows, sums, inv_std, norm.gamma, of);
  check_launch(name);
  walk_channels<k_neighbours<T>>(view, aligned, stream, name, SpreadGroup<T>{rows.channels, dy, x, dx, mean, of});
}

}  // namespace

void group_norm_backward_gpu(const KernelCall& call) {
  const NormBackward norm(call);
  by_floating(norm.dtype, [&]<class T>() { backward<T>(norm, call.queue); });
}

}  // namespace sluice::detail
