#include <algorithm>
#include <limits>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/pool/planes.h>
#include <sluice/operator/pool/walk.cuh>

namespace sluice::detail {
namespace {

template <class T, int V>
using Pack = Neighbours<T, V>;

template <class T, int V>
__device__ const Pack<T, V>& at(const T* data, std::int64_t vector) {
  return reinterpret_cast<const Pack<T, V>*>(data)[vector];
}
template <class T, int V>
__device__ void put(T* data, std::int64_t vector, const Pack<T, V>& values) {
  reinterpret_cast<Pack<T, V>*>(data)[vector] = values;
}

// Calls f(row, column) for every place within `ys` and `xs`.
template <class Range, class F>
__device__ void each_place(const Range& ys, const Range& xs, F&& f) {
  for (auto row = ys.begin; row < ys.end; ++row) {
    for (auto column = xs.begin; column < xs.end; ++column)
      f(row, column);
  }
}
template <class T, int V, class C>
__device__ void put_rounded(T* data, std::int64_t vector, const C (&values)[V]) {
  Pack<T, V> rounded;
#pragma unroll
  for (int j = 0; j < V; ++j)
    rounded.at[j] = T(values[j]);
  put<T, V>(data, vector, rounded);
}

// The largest of each window, the first of equal ones, the first NaN if there is one; and where in its plane it is.
template <class T>
struct MaxForward {
  static constexpr bool walks_inputs = false;
  const T* x;
  T* y;
  std::int32_t* index;

  template <int V, class Index>
  __device__ void run(const PoolWalk<Index>& w, Index i, const typename PoolWalk<Index>::Place& place) const {
    using C = Compute<T>;
    const auto ys = w.window(0, place.y), xs = w.window(1, place.x);
    Pack<T, V> largest = {};
    Pack<std::int32_t, V> where = {};
    bool first = true;
    for (Index row = ys.begin; row < ys.end; ++row) {
      for (Index column = xs.begin; column < xs.end; ++column) {
        const Pack<T, V> values = at<T, V>(x, w.vector(w.in, place, row, column));
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const C value = static_cast<C>(values.at[j]), most = static_cast<C>(largest.at[j]);
          // A NaN beats every number, nothing beats a NaN.
          if (first || value > most || (value != value && most == most)) {
            largest.at[j] = values.at[j];
            where.at[j] = static_cast<std::int32_t>(row * w.in.width + column);
          }
        }
        first = false;
      }
    }
    put<T, V>(y, i, largest);
    put<std::int32_t, V>(index, i, where);
  }
};

// Of each input the sum over the windows whose maximum it is.
template <class T>
struct MaxBackward {
  static constexpr bool walks_inputs = true;
  const T* dy;
  const std::int32_t* index;
  T* dx;

  template <int V, class Index>
  __device__ void run(const PoolWalk<Index>& w, Index i, const typename PoolWalk<Index>::Place& place) const {
    using C = Compute<T>;
    const auto ys = w.windows_of(0, place.y), xs = w.windows_of(1, place.x);
    const auto here = static_cast<std::int32_t>(place.y * w.in.width + place.x);
    C sums[V] = {};
    each_place(ys, xs, [&](Index row, Index column) {
      const Index vector = w.vector(w.out, place, row, column);
      const Pack<std::int32_t, V> where = at<std::int32_t, V>(index, vector);
      const Pack<T, V> head = at<T, V>(dy, vector);
#pragma unroll
      for (int j = 0; j < V; ++j)
        sums[j] += where.at[j] == here ? static_cast<C>(head.at[j]) : C(0);
    });
    put_rounded<T, V>(dx, i, sums);
  }
};

template <class T>
struct MaxGather {
  static constexpr bool walks_inputs = false;
  const T* x;
  const std::int32_t* index;
  T* y;
  std::int64_t plane;  // elements of x's
  ErrorWord* errors;

  template <int V, class Index>
  __device__ void run(const PoolWalk<Index>& w, Index i, const typename PoolWalk<Index>::Place& place) const {
    const Pack<std::int32_t, V> where = at<std::int32_t, V>(index, i);
    Pack<T, V> result;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const bool inside = where.at[j] >= 0 && where.at[j] < plane;
      if (!inside)
        report_index(errors, where.at[j], plane);
      const auto taken = static_cast<Index>(inside ? where.at[j] : 0);
      const Index row = w.in.by_width.divide(taken);
      const Index vector = w.vector(w.in, place, row, taken - row * w.in.width);
      result.at[j] = x[static_cast<std::int64_t>(vector) * V + j];
    }
    put<T, V>(y, i, result);
  }
};

template <class T>
struct MeanForward {
  static constexpr bool walks_inputs = false;
  const T* x;
  T* y;

  template <int V, class Index>
  __device__ void run(const PoolWalk<Index>& w, Index i, const typename PoolWalk<Index>::Place& place) const {
    using C = Compute<T>;
    const auto ys = w.window(0, place.y), xs = w.window(1, place.x);
    C sums[V] = {};
    each_place(ys, xs, [&](Index row, Index column) {
      const Pack<T, V> values = at<T, V>(x, w.vector(w.in, place, row, column));
#pragma unroll
      for (int j = 0; j < V; ++j)
        sums[j] += static_cast<C>(values.at[j]);
    });
    const C count = static_cast<C>(w.counted(0, place.y)) * static_cast<C>(w.counted(1, place.x));
#pragma unroll
    for (int j = 0; j < V; ++j)
      sums[j] /= count;
    put_rounded<T, V>(y, i, sums);
  }
};

template <class T>
struct MeanBackward {
  static constexpr bool walks_inputs = true;
  const T* dy;
  T* dx;

  template <int V, class Index>
  __device__ void run(const PoolWalk<Index>& w, Index i, const typename PoolWalk<Index>::Place& place) const {
    using C = Compute<T>;
    const auto ys = w.windows_of(0, place.y), xs = w.windows_of(1, place.x);
    C sums[V] = {};
    each_place(ys, xs, [&](Index row, Index column) {
      const Pack<T, V> head = at<T, V>(dy, w.vector(w.out, place, row, column));
      const C count = static_cast<C>(w.counted(0, row)) * static_cast<C>(w.counted(1, column));
#pragma unroll
      for (int j = 0; j < V; ++j)
        sums[j] += static_cast<C>(head.at[j]) / count;
    });
    put_rounded<T, V>(dx, i, sums);
  }
};

template <int V, class Index, class Body>
__global__ void __launch_bounds__(k_block) pool_kernel(PoolWalk<Index> w, Body body) {
  start_early();
  const auto step = static_cast<Index>(gridDim.x) * static_cast<Index>(k_block);
  for (auto i = static_cast<Index>(blockIdx.x) * k_block + static_cast<Index>(threadIdx.x); i < w.total; i += step)
    body.template run<V>(w, i, w.place(Body::walks_inputs ? w.in : w.out, i));
}

template <int V, class Body>
void launch_vectors(const Queue& queue, const PoolGeometry& g, std::int64_t inner, const char* name, Body body) {
  const std::int64_t inputs = g.planes * g.in[0] * g.in[1] / V, outputs = g.planes * g.out[0] * g.out[1] / V;
  const std::int64_t walked = Body::walks_inputs ? inputs : outputs;
  if (walked == 0)
    return;
  std::int64_t largest = std::max(inputs, outputs);
  for (int axis = 0; axis < 2; ++axis)
    largest = std::max(largest, g.in[axis] + g.kernel[axis] + g.stride[axis] + g.pad[axis] + g.pad_end[axis]);
  const unsigned blocks = blocks_for(walked);
  if (largest < std::numeric_limits<std::int32_t>::max() / 2) {
    pool_kernel<V><<<blocks, k_block, 0, stream_of(queue)>>>(PoolWalk<std::int32_t>(g, walked, inner / V), body);
  } else {
    pool_kernel<V><<<blocks, k_block, 0, stream_of(queue)>>>(PoolWalk<std::int64_t>(g, walked, inner / V), body);
  }
  check_early_launch(name, stream_of(queue));
}

// `images` tells how all arrays of the call lie; `aligned`: all of them can be read in vectors.
template <class T, class Body>
void launch(
    const KernelCall& call,
    const PoolGeometry& g,
    const TensorView& images,
    const char* name,
    bool aligned,
    Body body) {
  const bool last = order_of(images.shape, images.strides) == MemoryOrder::channels_last;
  const std::int64_t inner = last ? images.shape[1] : 1;
  constexpr int widest = k_neighbours<T>;
  if (aligned && inner % widest == 0)
    launch_vectors<widest>(call.queue, g, inner, name, body);
  else
    launch_vectors<1>(call.queue, g, inner, name, body);
}

template <class T>
bool aligned(const std::int32_t* index, const T* a, const T* b) {
  return starts_neighbours<std::int32_t, k_neighbours<T>>(index) && aligned_for_vectors(a, b);
}

const PoolAttributes& attributes_of(const KernelCall& call) {
  return call.attributes.as<PoolAttributes>();
}

}  // namespace

void max_pool2d_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d", call.inputs[0].shape, attributes_of(call));
  std::int32_t* index = call.outputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    T* y = call.outputs[0].as<T>();
    launch<T>(call, g, call.inputs[0], "max_pool2d", aligned<T>(index, x, y), MaxForward<T>{x, y, index});
  });
}

void max_pool2d_backward_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  const std::int32_t* index = call.inputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* dy = call.inputs[0].as<T>();
    T* dx = call.outputs[0].as<T>();
    launch<T>(
        call, g, call.outputs[0], "max_pool2d_backward", aligned<T>(index, dy, dx), MaxBackward<T>{dy, index, dx});
  });
}

void max_pool2d_gather_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_gather", call.inputs[0].shape, attributes_of(call));
  const std::int32_t* index = call.inputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    T* y = call.outputs[0].as<T>();
    launch<T>(
        call,
        g,
        call.inputs[0],
        "max_pool2d_gather",
        aligned<T>(index, x, y),
        MaxGather<T>{x, index, y, g.in[0] * g.in[1], call.queue.error_word()});
  });
}

void avg_pool2d_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d", call.inputs[0].shape, attributes_of(call));
  if (is_of_planes(g))
    return mean_of_planes_gpu(call);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    T* y = call.outputs[0].as<T>();
    launch<T>(call, g, call.inputs[0], "avg_pool2d", aligned_for_vectors(x, y), MeanForward<T>{x, y});
  });
}

void avg_pool2d_backward_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  if (is_of_planes(g) && call.outputs[0].contiguous)
    return spread_over_planes_gpu(call);
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* dy = call.inputs[0].as<T>();
    T* dx = call.outputs[0].as<T>();
    launch<T>(call, g, call.outputs[0], "avg_pool2d_backward", aligned_for_vectors(dy, dx), MeanBackward<T>{dy, dx});
  });
}

}  // namespace sluice::detail
