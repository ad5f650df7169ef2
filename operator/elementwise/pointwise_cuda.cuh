#pragma once

// The CUDA side of elementwise operators: three kernel templates. One moves vectors of 16 bytes; it takes operands
// whose innermost axis is a run of neighbours or one repeated value (contiguous arrays, an array with a scalar,
// broadcast rows and columns). The others take any strides: tiles where an operand is turned, streams where none is.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/math.h>
#include <sluice/operator/elementwise/pieces.h>
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/elementwise/streams.cuh>
#include <sluice/operator/elementwise/tile_kernel.cuh>
#include <sluice/operator/pairs.cuh>

namespace sluice::detail {

template <class Out, class... In>
struct PointwiseKernels;

/// V elements of a cycle, from element `at` of the result on.
template <int V, class T>
__device__ Neighbours<math::Compute<T>, V> read_cycle(const ReadOperand<T>& operand, std::int32_t at) {
  using C = math::Compute<T>;
  const std::int32_t turn = operand.repeats.divide(at), count = operand.count.value();
  const std::int32_t entry = turn - operand.count.divide(turn) * count;
  Neighbours<C, V> values;
  if (operand.repeats.value() == 1) {
    T raw[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      raw[j] = operand.data[(entry + j < count ? entry + j : entry + j - count) * operand.stride];
#pragma unroll
    for (int j = 0; j < V; ++j)
      values.at[j] = static_cast<C>(raw[j]);
    return values;
  }
  const std::int32_t left = (turn + 1) * operand.repeats.value() - at;
  const C first = static_cast<C>(operand.data[entry * operand.stride]);
  const C other = static_cast<C>(operand.data[(entry + 1 == count ? 0 : entry + 1) * operand.stride]);
#pragma unroll
  for (int j = 0; j < V; ++j)
    values.at[j] = j < left ? first : other;
  return values;
}

/// V neighbours of an operand, V times one element of it, or, if there are `Cycles`, what its cycle says.
template <int V, bool Cycles, class T>
__device__ Neighbours<math::Compute<T>, V> read_vector(const ReadOperand<T>& operand, std::int32_t offset) {
  using C = math::Compute<T>;
  if constexpr (Cycles) {
    if (operand.mode == ReadMode::cycle)
      return read_cycle<V>(operand, offset);
  }
  Neighbours<C, V> values;
  if (operand.mode == ReadMode::each) {
    widen(*reinterpret_cast<const Neighbours<T, V>*>(operand.data + offset), values.at);
  } else {
    const C value = operand.mode == ReadMode::repeated ? static_cast<C>(operand.data[offset]) : operand.constant;
#pragma unroll
    for (int j = 0; j < V; ++j)
      values.at[j] = value;
  }
  return values;
}

template <class F, int V, class Out, class... C>
__device__ void apply_pack(Out* to, const Neighbours<C, V>&... values) {
  decltype(F::of(values.at[0]...)) given[V];
#pragma unroll
  for (int j = 0; j < V; ++j)
    given[j] = F::of(values.at[j]...);
  Neighbours<Out, V> result;
  narrow(given, result);
  *reinterpret_cast<Neighbours<Out, V>*>(to) = result;
}

template <class F, int V, class Out, class G, class... In, std::size_t... I>
__device__ void apply_at(
    const G& at, std::int32_t index, Out* out, std::index_sequence<I...>, const ReadOperand<In>&... in) {
  const auto offsets = at.offsets(index);
  constexpr bool k_cycles = PointwiseKernels<Out, In...>::k_cycles;
  apply_pack<F, V>(out + offsets[0], read_vector<V, k_cycles>(in, offsets[static_cast<int>(I) + 1])...);
}

/// `at` walks vectors: its innermost extent counts them, its innermost strides step over them.
template <class F, int V, class Out, class... In>
__global__ void __launch_bounds__(k_block)
    pointwise_kernel(Geometry<1 + static_cast<int>(sizeof...(In)), std::int32_t> at, Out* out, ReadOperand<In>... in) {
  start_early();
  for (std::int32_t i = first_index(at); i < at.size; i += index_step(at))
    apply_at<F, V>(at, i, out, std::index_sequence_for<In...>{}, in...);
}

/// Elements of a vector: 16 bytes of the widest operand, at most 8.
template <class... T>
inline constexpr int k_pack = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  const std::size_t fit = 16 / widest;
  return static_cast<int>(fit > 8 ? 8 : fit);
}();

/// The plan in vectors of `V`, if every operand allows it.
template <int K>
bool pack_plan(const PointwiseArgs<K>& args, int V, StridedPlan<K>& packed) noexcept {
  packed = args.plan;
  const int inner = packed.ndim - 1;
  if (packed.extents[inner] % V != 0 || args.plan.inner_stride(0) != 1)
    return false;
  for (int k = 0; k < K; ++k) {
    if (args.is_constant[k])
      continue;
    const std::int64_t step = packed.strides[k][inner];
    if (step != 0 && step != 1)
      return false;
    if (step == 0)
      continue;
    const std::size_t bytes = size_of(args.dtypes[k]) * static_cast<std::size_t>(V);
    if (reinterpret_cast<std::uintptr_t>(args.data[k]) % bytes != 0)
      return false;
    for (int axis = 0; axis < inner; ++axis) {
      if (packed.strides[k][axis] % V != 0)
        return false;
    }
    packed.strides[k][inner] = V;
  }
  packed.extents[inner] /= V;
  packed.size /= V;
  return true;
}

/// The kernels of a formula. How they are launched is compiled once for all formulas of these types.
template <class Out, class... In>
struct PointwiseKernels {
  static constexpr int K = 1 + static_cast<int>(sizeof...(In));
  static constexpr int V = k_pack<Out, In...>;
  static constexpr int U = k_at_once<Out, In...>;
  static constexpr bool k_cycles = K > 2;  // one operand alone is seldom broadcast

  void (*of_vectors)(Geometry<K, std::int32_t> at, Out* out, ReadOperand<In>... in);
  void (*of_streams)(Streams<K> walk, Out* out, ReadOperand<In>... in);
  void (*of_tiles)(TileWalk<K> walk, Out* out, ReadOperand<In>... in);

  void launch(const PointwiseArgs<K>& args, void* stream) const {
    if (const std::int64_t vectors = flat_vectors(args, V)) {
      launch_vectors(plan_of_flat(args, vectors, V), args, stream, std::index_sequence_for<In...>{});
      return check_early_launch("elementwise kernel", static_cast<cudaStream_t>(stream));
    }
    const auto launch_piece = [&](const PointwiseArgs<K>& piece, void* on) {
      launch_whole(piece, static_cast<cudaStream_t>(on), std::index_sequence_for<In...>{});
    };
    launch_in_pieces<K>(args, V, launch_piece, stream);
  }

 private:
  template <std::size_t... I>
  void launch_vectors(
      const StridedPlan<K>& packed, const PointwiseArgs<K>& args, void* on, std::index_sequence<I...>) const {
    const Geometry<K, std::int32_t> at(packed);
    const auto stream = static_cast<cudaStream_t>(on);
    const auto kernel = of_vectors;
    kernel<<<blocks_for(packed.size), k_block, 0, stream>>>(
        at, reinterpret_cast<Out*>(args.data[0]), operand<In>(args, I + 1, true)...);
  }

  template <std::size_t... I>
  void launch_cycles(
      const PointwiseArgs<K>& args,
      const std::array<Cycle, K>& cycles,
      cudaStream_t stream,
      std::index_sequence<I...> each) const {
    const Geometry<K, std::int32_t> at(plan_of_flat(args, args.plan.size / V, V));
    const auto kernel = of_vectors;
    kernel<<<blocks_for(args.plan.size / V), k_block, 0, stream>>>(
        at, reinterpret_cast<Out*>(args.data[0]), operand<In>(args, I + 1, cycles[I + 1])...);
    if (const std::int64_t left = args.plan.size % V)
      launch_whole(tail_of(args, left), stream, each);
  }

  template <std::size_t... I>
  void launch_whole(const PointwiseArgs<K>& args, cudaStream_t stream, std::index_sequence<I...>) const {
    StridedPlan<K> packed;
    if (pack_plan(args, V, packed)) {
      launch_vectors(packed, args, stream, std::index_sequence<I...>{});
    } else if (const auto cycles = k_cycles ? cycles_of(args, V) : std::nullopt) {
      launch_cycles(args, *cycles, stream, std::index_sequence<I...>{});
    } else {
      Out* const out = reinterpret_cast<Out*>(args.data[0]);
      const auto launch_with = [&](auto kernel, const auto& walk, unsigned blocks) {
        kernel<<<blocks, k_block, 0, stream>>>(walk, out, operand<In>(args, I + 1, false)...);
      };
      if (const auto walk = walk_in_tiles(args, k_side_of<Out, In...>, k_in_pairs<Out, In...>)) {
        launch_with(of_tiles, *walk, walk->blocks());
      } else {
        const Streams<K> streams(args.plan, U);
        launch_with(of_streams, streams, blocks_for(streams.at.size));
      }
    }
    check_early_launch("elementwise kernel", stream);
  }

  template <class T>
  static ReadOperand<T> operand(const PointwiseArgs<K>& args, std::size_t k, bool packed) {
    const int index = static_cast<int>(k);
    if (args.is_constant[k])
      return {nullptr, args.template constant<math::Compute<T>>(index), ReadMode::constant};
    const bool repeated = packed && args.plan.inner_stride(index) == 0;
    return {reinterpret_cast<const T*>(args.data[k]), {}, repeated ? ReadMode::repeated : ReadMode::each};
  }

  template <class T>
  static ReadOperand<T> operand(const PointwiseArgs<K>& args, std::size_t k, const Cycle& cycle) {
    ReadOperand<T> made = operand<T>(args, k, false);
    if (args.is_constant[k] || cycle.count == 0)
      return made;
    made.mode = ReadMode::cycle;
    made.stride = static_cast<std::int32_t>(cycle.stride);
    made.repeats = Divider<std::int32_t>(cycle.repeats);
    made.count = Divider<std::int32_t>(cycle.count);
    return made;
  }
};

template <class F, class Out, class... In>
struct PointwiseKernel {
  using Kernels = PointwiseKernels<Out, In...>;

  static void launch(const PointwiseArgs<Kernels::K>& args, void* stream) {
    const Kernels kernels{
        &pointwise_kernel<F, Kernels::V, Out, In...>,
        &pointwise_streams_kernel<F, Kernels::U, Out, In...>,
        &pointwise_tiles_kernel<F, Out, In...>};
    kernels.launch(args, stream);
  }
};

}  // namespace sluice::detail
