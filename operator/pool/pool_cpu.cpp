#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/pool/planes_cpu.h>

namespace sluice::detail {
namespace {

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

// Calls body(plane, sums) with an accumulator a number of each plane of dx, zero to begin with, which becomes dx.
template <class T, class Body>
void sum_planes(const PoolGeometry& g, T* dx, Body&& body) {
  using Acc = Compute<T>;
  for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
    constexpr bool direct = std::is_same_v<T, Acc>;
    std::vector<Acc> beside(direct ? 0 : static_cast<std::size_t>(in_plane(g)));
    for (std::int64_t plane = begin; plane < end; ++plane) {
      T* const to = dx + plane * in_plane(g);
      if constexpr (direct) {
        std::fill_n(to, in_plane(g), Acc{0});
        body(plane, to);
      } else {
        std::fill(beside.begin(), beside.end(), Acc{0});
        body(plane, beside.data());
        simd::convert(beside.data(), to, in_plane(g));
      }
    }
  });
}

// What the windows of row `oy` give to each column: one line of gradients for all rows of theirs.
template <class Acc, class T>
void spread_row(
    const PoolGeometry& g, const T* dy, std::int64_t oy, std::vector<Acc>& each, std::vector<Acc>& columns) {
  for (std::int64_t ox = 0; ox < g.out[1]; ++ox)
    each[ox] = static_cast<Acc>(dy[oy * g.out[1] + ox]) / static_cast<Acc>(window_count(g, oy, ox));
  std::fill(columns.begin(), columns.end(), Acc{0});
  for (std::int64_t tap = g.kernel[1] - 1; tap >= 0; --tap) {
    const Span1D span = columns_inside(g, tap);
    for (std::int64_t ox = span.begin; ox < span.end; ++ox)
      columns[ox * g.stride[1] + tap - g.pad[1]] += each[ox];
  }
}

const PoolAttributes& attributes_of(const KernelCall& call) {
  return call.attributes.as<PoolAttributes>();
}

// A graph file, or a call by name, may bring any numbers.
std::int32_t checked_place(const char* op, std::int32_t place, std::int64_t plane) {
  require<IndexError>(place >= 0 && place < plane, [&] {
    return message(op, ": a maximum at ", place, " of a plane of ", plane, " elements");
  });
  return place;
}

}  // namespace

void max_pool2d_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d", call.inputs[0].shape, attributes_of(call));
  if (max_pool2d_in_vectors(call, g))
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Compute<T>> largest(g.out[1]);
      for (std::int64_t row = begin * g.out[0]; row < end * g.out[0]; ++row) {
        const T* x = call.inputs[0].as<T>() + row / g.out[0] * in_plane(g);
        T* y = call.outputs[0].as<T>() + row * g.out[1];
        std::int32_t* best = call.outputs[1].as<std::int32_t>() + row * g.out[1];
        max_row(g, x, row % g.out[0], largest.data(), best);
        for (std::int64_t ox = 0; ox < g.out[1]; ++ox)
          y[ox] = x[best[ox]];
      }
    });
  });
}

void max_pool2d_backward_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  // Where windows do not overlap, each input has one gradient at most.
  const bool apart = g.stride[0] >= g.kernel[0] && g.stride[1] >= g.kernel[1];
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    const T* const dy = call.inputs[0].as<T>();
    const std::int32_t* const index = call.inputs[1].as<std::int32_t>();
    T* const dx = call.outputs[0].as<T>();
    if (!apart) {
      return sum_planes(g, dx, [&](std::int64_t plane, Compute<T>* sums) {
        for (std::int64_t o = plane * out_plane(g); o < (plane + 1) * out_plane(g); ++o)
          sums[checked_place("max_pool2d_backward", index[o], in_plane(g))] += static_cast<Compute<T>>(dy[o]);
      });
    }
    for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        T* const to = dx + plane * in_plane(g);
        std::fill_n(to, in_plane(g), T(0.0f));
        for (std::int64_t o = plane * out_plane(g); o < (plane + 1) * out_plane(g); ++o)
          to[checked_place("max_pool2d_backward", index[o], in_plane(g))] = dy[o];
      }
    });
  });
}

void max_pool2d_gather_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("max_pool2d_gather", call.inputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, out_plane(g), [&](std::int64_t begin, std::int64_t end) {
      const T* x = call.inputs[0].as<T>();
      const std::int32_t* index = call.inputs[1].as<std::int32_t>();
      T* y = call.outputs[0].as<T>();
      for (std::int64_t plane = begin; plane < end; ++plane) {
        for (std::int64_t o = plane * out_plane(g); o < (plane + 1) * out_plane(g); ++o)
          y[o] = x[plane * in_plane(g) + checked_place("max_pool2d_gather", index[o], in_plane(g))];
      }
    });
  });
}

void avg_pool2d_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d", call.inputs[0].shape, attributes_of(call));
  if (avg_pool2d_in_vectors(call, g))
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* x = call.inputs[0].as<T>() + plane * in_plane(g);
        T* y = call.outputs[0].as<T>() + plane * out_plane(g);
        for_each_output(g, [&](std::int64_t oy, std::int64_t ox, std::int64_t o) {
          y[o] = T(mean_of_window<Compute<T>>(g, x, oy, ox));
        });
      }
    });
  });
}

void avg_pool2d_backward_cpu(const KernelCall& call) {
  const PoolGeometry g = pool_geometry("avg_pool2d_backward", call.outputs[0].shape, attributes_of(call));
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    using Acc = Compute<T>;
    sum_planes(g, call.outputs[0].as<T>(), [&](std::int64_t plane, Acc* sums) {
      std::vector<Acc> each(static_cast<std::size_t>(g.out[1])), columns(static_cast<std::size_t>(g.in[1]));
      const T* const dy = call.inputs[0].as<T>() + plane * out_plane(g);
      for (std::int64_t oy = 0; oy < g.out[0]; ++oy) {
        spread_row(g, dy, oy, each, columns);
        const Span1D ys = window_inside(g, 0, oy);
        for (std::int64_t y = ys.begin; y < ys.end; ++y)
          add_row(columns.data(), g.in[1], sums + y * g.in[1]);
      }
    });
  });
}

}  // namespace sluice::detail
