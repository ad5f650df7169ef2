#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/pool/window.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 4 * 1024;  // elements worth a thread

// Calls body(plane) for every plane, `elements` of work each.
template <class Body>
void for_each_plane(const PoolGeometry& g, std::int64_t elements, Body&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, elements));
  parallel_for(g.planes, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      body(plane);
  });
}

std::int64_t in_plane(const PoolGeometry& g) {
  return g.in[0] * g.in[1];
}
std::int64_t out_plane(const PoolGeometry& g) {
  return g.out[0] * g.out[1];
}

// Calls body(oy, ox, o) for every output of a plane.
template <class Body>
void for_each_output(const PoolGeometry& g, Body&& body) {
  std::int64_t o = 0;
  for (std::int64_t oy = 0; oy < g.out[0]; ++oy) {
    for (std::int64_t ox = 0; ox < g.out[1]; ++ox)
      body(oy, ox, o++);
  }
}

const PoolAttributes& attributes_of(const KernelCall& call) {
  return call.attributes.as<PoolAttributes>();
}

}  // namespace

void max_pool2d_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d", call.inputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t plane) {
      const T* x = call.inputs[0].as<T>() + plane * in_plane(g);
      T* y = call.outputs[0].as<T>() + plane * out_plane(g);
      std::int32_t* index =
          call.outputs.size() > 1 ? call.outputs[1].as<std::int32_t>() + plane * out_plane(g) : nullptr;
      for_each_output(g, [&](std::int64_t oy, std::int64_t ox, std::int64_t o) {
        const std::int32_t best = max_of_window<Compute<T>>(g, x, oy, ox);
        y[o] = x[best];
        if (index != nullptr)
          index[o] = best;
      });
    });
  });
}

void max_pool2d_backward_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  // Where windows do not overlap, each input has one gradient at most.
  const bool apart = g.stride[0] >= g.kernel[0] && g.stride[1] >= g.kernel[1];
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t plane) {
      const T* dy = call.inputs[0].as<T>() + plane * out_plane(g);
      const std::int32_t* index = call.inputs[1].as<std::int32_t>() + plane * out_plane(g);
      T* dx = call.outputs[0].as<T>() + plane * in_plane(g);
      if (apart) {
        std::fill_n(dx, in_plane(g), T(0.0f));
        for (std::int64_t o = 0; o < out_plane(g); ++o)
          dx[index[o]] = dy[o];
        return;
      }
      for (std::int64_t i = 0; i < in_plane(g); ++i)
        dx[i] = T(max_gradient<Compute<T>>(g, dy, index, i / g.in[1], i % g.in[1]));
    });
  });
}

void max_pool2d_gather_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_gather", call.inputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, out_plane(g), [&](std::int64_t plane) {
      const T* x = call.inputs[0].as<T>() + plane * in_plane(g);
      const std::int32_t* index = call.inputs[1].as<std::int32_t>() + plane * out_plane(g);
      T* y = call.outputs[0].as<T>() + plane * out_plane(g);
      for (std::int64_t o = 0; o < out_plane(g); ++o)
        y[o] = x[index[o]];
    });
  });
}

void avg_pool2d_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d", call.inputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t plane) {
      const T* x = call.inputs[0].as<T>() + plane * in_plane(g);
      T* y = call.outputs[0].as<T>() + plane * out_plane(g);
      for_each_output(g, [&](std::int64_t oy, std::int64_t ox, std::int64_t o) {
        y[o] = T(mean_of_window<Compute<T>>(g, x, oy, ox));
      });
    });
  });
}

void avg_pool2d_backward_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t plane) {
      const T* dy = call.inputs[0].as<T>() + plane * out_plane(g);
      T* dx = call.outputs[0].as<T>() + plane * in_plane(g);
      for (std::int64_t i = 0; i < in_plane(g); ++i)
        dx[i] = T(mean_gradient<Compute<T>>(g, dy, i / g.in[1], i % g.in[1]));
    });
  });
}

}  // namespace sluice::detail
