#include <algorithm>
#include <vector>

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

// The outputs along the width whose input at kernel column `tap` is inside.
Span1D columns_inside(const PoolGeometry& g, std::int64_t tap) {
  const std::int64_t shift = tap - g.pad[1], stride = g.stride[1];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = g.in[1] - shift;
  const std::int64_t last = room <= 0 ? 0 : (room + stride - 1) / stride;
  return {smaller(first, g.out[1]), smaller(last, g.out[1])};
}

// One row of maxima, tap by tap over the whole row and without branches; otherwise as max_of_window().
template <class T>
void max_row(const PoolGeometry& g, const T* plane, std::int64_t oy, Compute<T>* largest, std::int32_t* index) {
  using Acc = Compute<T>;
  std::fill_n(largest, g.out[1], Acc(0));
  std::fill_n(index, g.out[1], -1);
  const Span1D ys = window_inside(g, 0, oy);
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    for (std::int64_t tap = 0; tap < g.kernel[1]; ++tap) {
      const Span1D columns = columns_inside(g, tap);
      const std::int64_t first = y * g.in[1] + tap - g.pad[1];
      for (std::int64_t o = columns.begin; o < columns.end; ++o) {
        const std::int64_t at = first + o * g.stride[1];
        const Acc value = static_cast<Acc>(plane[at]), before = largest[o];
        const bool wins = (index[o] < 0) | (value > before) | ((value != value) & (before == before));
        largest[o] = wins ? value : before;
        index[o] = wins ? static_cast<std::int32_t>(at) : index[o];
      }
    }
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
      std::int32_t* index = call.outputs[1].as<std::int32_t>() + plane * out_plane(g);
      std::vector<Compute<T>> largest(g.out[1]);
      for (std::int64_t oy = 0; oy < g.out[0]; ++oy) {
        std::int32_t* best = index + oy * g.out[1];
        max_row(g, x, oy, largest.data(), best);
        for (std::int64_t ox = 0; ox < g.out[1]; ++ox)
          y[oy * g.out[1] + ox] = x[best[ox]];
      }
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
