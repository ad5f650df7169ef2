#pragma once

// One kernel for what moves slices along an axis: entry o of a result is entry Row::from(o) of what it comes from. It
// moves units, the widest that slices and addresses are multiples of, several a thread under way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {

/// Entries first .. first + count of the result, `size` units of it, from an array of n entries and `units`; a and b
/// are the row's numbers.
template <class I>
struct AxisPart {
  const void* from;
  I n, first, a, b, size, units;
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
inline constexpr std::int64_t k_worth_vectors = 1 << 16;  // of fewer units a thread each keeps more of them under way

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

/// Units of one and two bytes that are read by the 16 bytes they lie in, and by those behind: neither begin before the
/// array nor end beyond it.
template <class U, class I>
__device__ bool has_room_around(I at, I units) {
  constexpr I V = k_neighbours<U>;
  return at >= V && at + 2 * V <= units;
}

/// Where the V units of the result from `unit` of entry o on come from, when they are neighbours there: of one slice,
/// or slices of one unit, which may lie in the other order; else -1. The one in the middle tells from rows that begin
/// anew.
template <class Row, class U, class I>
__device__ I run_at(const AxisPart<I>& part, I outer, I o, I inner, I unit, bool& falls) {
  constexpr I V = k_neighbours<U>;
  const auto from = [&](I further) { return Row::from(o + further, part.n, part.a, part.b); };
  const I first = from(0);
  I at = (outer * part.n + first) * inner + unit;
  falls = false;
  if (unit + V > inner) {
    if (inner != 1 || o + V > part.count.value())
      return -1;
    const I middle = from(V / 2) - first, last = from(V - 1) - first;
    falls = middle == -(V / 2) && last == 1 - V;
    if (!falls && (middle != V / 2 || last != V - 1))
      return -1;
    at += falls ? last : 0;
  }
  return first >= 0 && has_room_around<U>(at, part.units) ? at : -1;
}

/// 16 bytes from any address that is a multiple of an element, where there is room around.
template <class U>
__device__ Neighbours<U, k_neighbours<U>> read_run(const U* from) {
  using Words = Neighbours<std::uint32_t, 4>;
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto* const vectors = reinterpret_cast<const Words*>(address & ~std::uintptr_t{15});
  const Words low = vectors[0], high = address % 16 != 0 ? vectors[1] : low;
  const bool by_two = (address & 8) != 0, by_one = (address & 4) != 0;
  const unsigned shift = 8 * static_cast<unsigned>(address & 3);
  std::uint32_t read[6];
#pragma unroll
  for (int w = 0; w < 6; ++w) {
    const std::uint32_t here = w < 4 ? low.at[w % 4] : high.at[w % 4];
    read[w] = by_two ? (w < 2 ? low.at[w + 2] : high.at[w - 2]) : here;
  }
  Words whole;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t first = by_one ? read[w + 1] : read[w], second = by_one ? read[w + 2] : read[w + 1];
    whole.at[w] = static_cast<std::uint32_t>((std::uint64_t{second} << 32 | first) >> shift);
  }
  Neighbours<U, k_neighbours<U>> run;
  memcpy(&run, &whole, sizeof run);
  return run;
}

template <class U, int V>
__device__ void turn_round(Neighbours<U, V>& run) {
#pragma unroll
  for (int v = 0; v < V / 2; ++v) {
    const U first = run.at[v];
    run.at[v] = run.at[V - 1 - v];
    run.at[V - 1 - v] = first;
  }
}

/// V units of a result from one array, each found by itself; they may end a slice.
template <class Row, class U, class I>
__device__ void walk_each(const AxisParts<I, 1>& parts, U* out, U fill, I i) {
  constexpr int V = k_neighbours<U>;
  const AxisPart<I>& part = parts.part[0];
  const U* const from = static_cast<const U*>(part.from);
  const I inner = parts.inner.value(), count = part.count.value(), slice = parts.inner.divide(i);
  I outer = part.count.divide(slice), o = slice - outer * count, unit = i - slice * inner;
  Neighbours<U, V> loaded;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    loaded.at[v] = fill;
    if (const I entry = Row::from(o, part.n, part.a, part.b); entry >= 0 && i + v < part.size)
      loaded.at[v] = from[(outer * part.n + entry) * inner + unit];
    const bool ends = ++unit == inner, ends_axis = ends && o + 1 == count;
    unit = ends ? 0 : unit;
    o = ends_axis ? 0 : ends ? o + 1 : o;
    outer += ends_axis ? 1 : 0;
  }
  if (i + V <= part.size) {
    *reinterpret_cast<Neighbours<U, V>*>(out + i) = loaded;
    return;
  }
  for (int v = 0; i + v < part.size; ++v)
    out[i + v] = loaded.at[v];
}

/// Where the V units of the result from i on come from, as run_at() says.
template <class Row, class U, class I>
__device__ I run_of(const AxisParts<I, 1>& parts, I i, bool& falls) {
  const AxisPart<I>& part = parts.part[0];
  const I inner = parts.inner.value(), slice = parts.inner.divide(i), outer = part.count.divide(slice);
  return run_at<Row, U>(part, outer, slice - outer * part.count.value(), inner, i - slice * inner, falls);
}

/// Vectors a thread: of narrow units one alone would keep too little under way.
template <class U>
inline constexpr int k_vectors_each = sizeof(U) <= 2 ? 2 : 1;

/// The whole result from one array: a thread writes neighbours.
template <class Row, class U, class I>
__global__ void __launch_bounds__(k_block)
    axis_walk_vectors_kernel(const __grid_constant__ AxisParts<I, 1> parts, U* out, U fill) {
  start_early();
  constexpr int V = k_neighbours<U>;
  const I size = parts.part[0].size, step = static_cast<I>(gridDim.x) * static_cast<I>(blockDim.x) * V;
  I i = (static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x)) * V;
  if constexpr (k_vectors_each < U >> 1) {
    const U* const from = static_cast<const U*>(parts.part[0].from);
    for (; i + step + V <= size; i += 2 * step) {
      bool falls[2];
      const I first = run_of<Row, U>(parts, i, falls[0]), second = run_of<Row, U>(parts, i + step, falls[1]);
      if (first < 0 || second < 0) {
        walk_each<Row>(parts, out, fill, i);
        walk_each<Row>(parts, out, fill, i + step);
        continue;
      }
      Neighbours<U, V> runs[2] = {read_run(from + first), read_run(from + second)};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (falls[r])
          turn_round(runs[r]);
        *reinterpret_cast<Neighbours<U, V>*>(out + i + r * step) = runs[r];
      }
    }
  }
  for (; i < size; i += step)
    walk_each<Row>(parts, out, fill, i);
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
        static_cast<I>(run.outer * s.n * run.inner),
        Divider<I>(s.count)};
  }
  return parts;
}

/// Enqueues up to N parts, none of them empty; of one, it is all of the result. Throws CudaError naming `name` where
/// the launch is refused.
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
  if constexpr (N == 1 && sizeof(U) < 16) {
    if (most <= limit && units >= k_worth_vectors && starts_neighbours<U, k_neighbours<U>>(out)) {
      const AxisParts<std::int32_t, 1> parts = axis_parts<std::int32_t, 1>(run, sources, count);
      const unsigned blocks = blocks_for(units / k_neighbours<U>, k_vectors_each<U>);
      axis_walk_vectors_kernel<Row><<<blocks, k_block, 0, stream>>>(parts, to, fill);
      return check_early_launch(name, stream);
    }
  }
  if (most <= limit) {
    axis_walk_kernel<Row><<<grid, k_block, 0, stream>>>(axis_parts<std::int32_t, N>(run, sources, count), to, fill);
  } else {
    axis_walk_kernel<Row><<<grid, k_block, 0, stream>>>(axis_parts<std::int64_t, N>(run, sources, count), to, fill);
  }
  check_early_launch(name, stream);
}

}  // namespace sluice::detail
