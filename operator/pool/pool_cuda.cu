#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/pool/window.h>

namespace sluice::detail {
namespace {

// Which element of which plane a thread works on; planes of `height` x `width`.
struct Place {
  std::int64_t plane, y, x;
};

__device__ Place place_of(std::int64_t linear, std::int64_t height, std::int64_t width, std::int64_t total) {
  if (total <= 0x7fffffff) {  // 32-bit division is several times cheaper
    const auto i = static_cast<std::uint32_t>(linear);
    const auto w = static_cast<std::uint32_t>(width);
    const auto h = static_cast<std::uint32_t>(height);
    const std::uint32_t row = i / w;
    return {row / h, row % h, i % w};
  }
  const std::int64_t row = linear / width;
  return {row / height, row % height, linear % width};
}

template <class T>
struct MaxForward {
  const T* x;
  T* y;
  std::int32_t* index;
  __device__ void operator()(const PoolGeometry& g, std::int64_t i, const Place& at) const {
    const T* plane = x + at.plane * g.in[0] * g.in[1];
    const std::int32_t best = max_of_window<Compute<T>>(g, plane, at.y, at.x);
    y[i] = plane[best];
    index[i] = best;
  }
};

template <class T>
struct MaxBackward {
  const T* dy;
  const std::int32_t* index;
  T* dx;
  __device__ void operator()(const PoolGeometry& g, std::int64_t i, const Place& at) const {
    const std::int64_t first = at.plane * g.out[0] * g.out[1];
    dx[i] = T(max_gradient<Compute<T>>(g, dy + first, index + first, at.y, at.x));
  }
};

template <class T>
struct MaxGather {
  const T* x;
  const std::int32_t* index;
  T* y;
  __device__ void operator()(const PoolGeometry& g, std::int64_t i, const Place& at) const {
    y[i] = x[at.plane * g.in[0] * g.in[1] + index[i]];
  }
};

template <class T>
struct MeanForward {
  const T* x;
  T* y;
  __device__ void operator()(const PoolGeometry& g, std::int64_t i, const Place& at) const {
    y[i] = T(mean_of_window<Compute<T>>(g, x + at.plane * g.in[0] * g.in[1], at.y, at.x));
  }
};

template <class T>
struct MeanBackward {
  const T* dy;
  T* dx;
  __device__ void operator()(const PoolGeometry& g, std::int64_t i, const Place& at) const {
    dx[i] = T(mean_gradient<Compute<T>>(g, dy + at.plane * g.out[0] * g.out[1], at.y, at.x));
  }
};

template <class Body>
__global__ void pool_kernel(PoolGeometry g, std::int64_t height, std::int64_t width, std::int64_t total, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step)
    body(g, i, place_of(i, height, width, total));
}

// One thread an element of planes of `extent`.
template <class Body>
void launch(
    const KernelCall& call, const PoolGeometry& g, const std::int64_t (&extent)[2], const char* name, Body body) {
  const std::int64_t total = g.planes * extent[0] * extent[1];
  if (total == 0)
    return;
  pool_kernel<<<blocks_for(total), k_block, 0, stream_of(call.queue)>>>(g, extent[0], extent[1], total, body);
  check_launch(name);
}

const PoolAttributes& attributes_of(const KernelCall& call) {
  return call.attributes.as<PoolAttributes>();
}

}  // namespace

void max_pool2d_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d", call.inputs[0].shape, attributes_of(call));
  std::int32_t* index = call.outputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch(call, g, g.out, "max_pool2d", MaxForward<T>{call.inputs[0].as<T>(), call.outputs[0].as<T>(), index});
  });
}

void max_pool2d_backward_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  const std::int32_t* index = call.inputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch(
        call, g, g.in, "max_pool2d_backward", MaxBackward<T>{call.inputs[0].as<T>(), index, call.outputs[0].as<T>()});
  });
}

void max_pool2d_gather_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_gather", call.inputs[0].shape, attributes_of(call));
  const std::int32_t* index = call.inputs[1].as<std::int32_t>();
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch(call, g, g.out, "max_pool2d_gather", MaxGather<T>{call.inputs[0].as<T>(), index, call.outputs[0].as<T>()});
  });
}

void avg_pool2d_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d", call.inputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch(call, g, g.out, "avg_pool2d", MeanForward<T>{call.inputs[0].as<T>(), call.outputs[0].as<T>()});
  });
}

void avg_pool2d_backward_gpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    launch(call, g, g.in, "avg_pool2d_backward", MeanBackward<T>{call.inputs[0].as<T>(), call.outputs[0].as<T>()});
  });
}

}  // namespace sluice::detail
