#pragma once

// One kernel for what moves slices along an axis: entry o of a result is entry Row::from(o) of what it comes from. It
// moves units, the widest that slices and addresses are multiples of, several a thread under way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/element_size.h>

namespace sluice::detail {

/// Entries first .. first + count of the result, from an array of n entries; a and b are the row's numbers.
template <class I>
struct AxisPart {
  const void* from;
  I n, first, a, b, size;
  Divider<I> count;
};

/// Up to N parts of one result, whose axis has `extent` entries of `inner` units each.
template <class I, int N>
struct AxisParts {
  AxisPart<I> part[N];
  Divider<I> inner;
  I extent;
};

inline constexpr int k_units_under_way = 4;

// blockIdx.y is the part.
template <class Row, class U, class I, int N>
__global__ void __launch_bounds__(k_block)
    axis_walk_kernel(const __grid_constant__ AxisParts<I, N> parts, U* out, U fill) {
  start_early();
  const AxisPart<I>& part = parts.part[blockIdx.y];
  const U* const from = static_cast<const U*>(part.from);
  const I step = static_cast<I>(gridDim.x) * static_cast<I>(blockDim.x);
  const I start = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  const I inner = parts.inner.value(), count = part.count.value();
  for (I i = start; i < part.size; i += k_units_under_way * step) {
    U loaded[k_units_under_way];
    I to[k_units_under_way];
#pragma unroll
    for (int u = 0; u < k_units_under_way; ++u) {
      const I at = i + static_cast<I>(u) * step;
      const I slice = parts.inner.divide(at), unit = at - slice * inner;
      const I outer = part.count.divide(slice), o = slice - outer * count + part.first;
      to[u] = (outer * parts.extent + o) * inner + unit;
      loaded[u] = fill;
      if (at < part.size) {
        if (const I entry = Row::from(o, part.n, part.a, part.b); entry >= 0)
          loaded[u] = from[(outer * part.n + entry) * inner + unit];
      }
    }
#pragma unroll
    for (int u = 0; u < k_units_under_way; ++u) {
      if (i + static_cast<I>(u) * step < part.size)
        out[to[u]] = loaded[u];
    }
  }
}

/// The widest unit, at most 16 bytes, that all of `bits`, addresses and lengths in bytes, are multiples of.
inline std::size_t widest_unit(std::uintptr_t bits) noexcept {
  std::size_t unit = 16;
  while (bits % unit != 0)
    unit /= 2;
  return unit;
}

template <class F>
void by_unit(std::size_t bytes, F&& f) {
  if (bytes == sizeof(uint4))
    return f.template operator()<uint4>();
  by_element_size(bytes, f);
}

/// What a launch is made of, in entries and units; `outer` slices of the axis stand in front of each other.
struct AxisRun {
  std::int64_t outer, extent, inner;
};
struct AxisSource {
  const void* from;
  std::int64_t n, first, count, a, b;
};

template <class I, int N>
AxisParts<I, N> axis_parts(const AxisRun& run, const AxisSource* sources, int count) {
  AxisParts<I, N> parts;
  parts.inner = Divider<I>(run.inner);
  parts.extent = static_cast<I>(run.extent);
  for (int k = 0; k < count; ++k) {
    const AxisSource& s = sources[k];
    parts.part[k] = {
        s.from,
        static_cast<I>(s.n),
        static_cast<I>(s.first),
        static_cast<I>(s.a),
        static_cast<I>(s.b),
        static_cast<I>(run.outer * s.count * run.inner),
        Divider<I>(s.count)};
  }
  return parts;
}

/// Enqueues up to N parts, none of them empty. Throws CudaError naming `name` where the launch is refused.
template <class Row, class U, int N>
void launch_axis_walk(
    const char* name,
    const AxisRun& run,
    const AxisSource* sources,
    int count,
    void* out,
    U fill,
    cudaStream_t stream) {
  // Offsets, and steps behind the last unit, stay below 2^31.
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() / 2;
  std::int64_t units = 0, most = run.outer * run.extent * run.inner;
  for (int k = 0; k < count; ++k) {
    const AxisSource& s = sources[k];
    units = std::max(units, run.outer * s.count * run.inner);
    most = std::max({most, run.outer * s.n * run.inner, std::abs(s.a), std::abs(s.b)});
  }
  const dim3 grid(blocks_for(units, k_units_under_way), static_cast<unsigned>(count));
  U* const to = static_cast<U*>(out);
  if (most <= limit) {
    axis_walk_kernel<Row><<<grid, k_block, 0, stream>>>(axis_parts<std::int32_t, N>(run, sources, count), to, fill);
  } else {
    axis_walk_kernel<Row><<<grid, k_block, 0, stream>>>(axis_parts<std::int64_t, N>(run, sources, count), to, fill);
  }
  check_early_launch(name, stream);
}

}  // namespace sluice::detail
