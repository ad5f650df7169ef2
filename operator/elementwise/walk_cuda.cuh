#pragma once

// Elementwise runs over operands of any strides, on a GPU. A thread takes several elements, whose loads are all under
// way before one is needed, and finds its place by one division an axis for all of them. It takes them in one of two
// ways:
//   streams  the outermost axis is cut in as many parts; threads side by side are neighbours in memory however odd the
//            rows and their addresses are;
//   tiles    some operand has its neighbours along another axis than what is written: a block reads a square of it
//   along
//            that axis and turns it in shared memory. Elements of two bytes have wider squares, or too few bytes would
//            be read of a row and be under way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/math.h>

namespace sluice::detail {

/// What an operand's elements are: a number, one element for all of a vector, each its own, or a Cycle's (pieces.h).
enum class ReadMode : std::uint8_t { constant, repeated, each, cycle };

/// One operand that a kernel reads.
template <class T>
struct Source {
  const T* data = nullptr;
  math::Compute<T> constant{};
  ReadMode mode = ReadMode::constant;
  std::int32_t stride = 1;  // of a cycle
  Divider<std::int32_t> repeats = {}, count = {};
};

inline constexpr int k_turned = 2;                   // operands that are turned, at most; more are read as they lie
inline constexpr std::int64_t k_worth_turning = 16;  // shorter axes leave most of a tile idle
inline constexpr std::int64_t k_tile_group = 8;      // tiles side by side where turned operands are read
inline constexpr std::int32_t k_most_blocks = 65536;

/// Elements a thread takes at once: more where they are small, or too few bytes would be under way.
template <class... T>
inline constexpr int k_at_once = ((sizeof(T) <= 2) && ...) ? 8 : 4;

/// A square tile of `Side` elements a line; threads beside each other take elements of a line, at least a warp of them.
template <int Side>
struct Square {
  static constexpr int k_side = Side;
  static constexpr int k_step = k_block / Side;  // lines of the tile that are read at once
  static constexpr int k_lines = Side / k_step;  // of the tile, a thread
  __device__ static std::int32_t lane() { return static_cast<std::int32_t>(threadIdx.x) % Side; }
  __device__ static std::int32_t line() { return static_cast<std::int32_t>(threadIdx.x) / Side; }
};
template <class... T>
inline constexpr int k_side_of = ((sizeof(T) <= 2) && ...) ? 64 : 32;

/// How many elements a thread has: of what lies as the result does, and of operands that are turned.
struct Share {
  int straight, turned;
};

/// How threads walk a plan of K operands, of which operand 0 is written.
template <int K>
struct Walk {
  Geometry<K, std::int32_t> at;  // of a thread's first element, or of a tile's
  std::int32_t next[K];          // from an element of a thread to its next one
  std::int32_t total = 0;        // streams: elements; those of a thread lie at.size of them apart
  std::int32_t streams = 0;      // 0: tiles
  // Of tiles. Lanes go along the axis that is written along, lines along the other; in a turned operand the other way
  // round.
  std::int32_t by_lane[K] = {}, by_line[K] = {};
  std::int8_t slot[K];  // where it is turned; -1: nowhere
  std::int32_t along = 0, across = 0;
  Divider<std::int32_t> group, along_tiles, across_groups;

  explicit Walk(const StridedPlan<K>& plan) : at(plan) {
    for (std::int8_t& none : slot)
      none = -1;
  }
  unsigned blocks() const noexcept {
    return streams != 0 ? blocks_for(at.size) : static_cast<unsigned>(std::min(at.size, k_most_blocks));
  }

  template <class S>
  __device__ Share share(std::int32_t i) const {
    if (streams != 0) {
      const int count = i + (streams - 1) * at.size < total ? streams : streams - 1;
      return {count, count};
    }
    const std::int32_t of_group = group.divide(i), of_row = along_tiles.divide(of_group);
    const std::int32_t row = of_row - across_groups.divide(of_row) * across_groups.value();
    const std::int32_t along_left = along - (of_group - of_row * along_tiles.value()) * S::k_side;
    const std::int32_t across_left = across - (row * group.value() + i - of_group * group.value()) * S::k_side;
    return {lines<S>(along_left, across_left), lines<S>(across_left, along_left)};
  }

 private:
  template <class S>
  __device__ static int lines(std::int32_t lanes_left, std::int32_t lines_left) {
    const std::int32_t count = (lines_left - S::line() + S::k_step - 1) / S::k_step;
    return S::lane() >= lanes_left || count < 0 ? 0 : count < S::k_lines ? count : S::k_lines;
  }
};

template <int K>
Walk<K> walk_in_streams(StridedPlan<K> plan, int at_once) noexcept {
  const std::int64_t extent = plan.extents[0], part = (extent + at_once - 1) / at_once, total = plan.size;
  plan.extents[0] = part;
  plan.size = total / extent * part;
  Walk<K> walk(plan);
  walk.total = static_cast<std::int32_t>(total);
  walk.streams = static_cast<std::int32_t>((extent + part - 1) / part);
  for (int k = 0; k < K; ++k)
    walk.next[k] = static_cast<std::int32_t>(part * plan.strides[k][0]);
  return walk;
}

/// Whether operand k has its neighbours along `axis` and not along the innermost one.
template <int K>
bool is_turned(const StridedPlan<K>& plan, int k, int axis) noexcept {
  const std::int64_t step = plan.inner_stride(k);
  return plan.strides[k][axis] == 1 && step != 0 && step != 1 && plan.extents[axis] >= k_worth_turning;
}

/// The axis that the first turned operand has its neighbours along; -1: there is none.
template <int K>
int axis_of_turned(const StridedPlan<K>& plan) noexcept {
  for (int k = 1; k < K && plan.inner() >= k_worth_turning; ++k) {
    for (int axis = 0; axis + 1 < plan.ndim; ++axis) {
      if (is_turned(plan, k, axis))
        return axis;
    }
  }
  return -1;
}

/// One entry a tile: what is left of `plan` beside two axes, groups of tiles across, tiles along, and those of a group.
template <int K>
StridedPlan<K> plan_of_tiles(
    const StridedPlan<K>& plan,
    int axis,
    int side,
    std::int64_t groups,
    std::int64_t along,
    std::int64_t group) noexcept {
  StridedPlan<K> tiles;
  tiles.ndim = 0;
  const auto add = [&](std::int64_t extent, int of, std::int64_t times) {
    tiles.size *= extent;
    tiles.extents[tiles.ndim] = extent;
    for (int k = 0; k < K; ++k)
      tiles.strides[k][tiles.ndim] = plan.strides[k][of] * times;
    ++tiles.ndim;
  };
  for (int rest = 0; rest + 1 < plan.ndim; ++rest) {
    if (rest != axis)
      add(plan.extents[rest], rest, 1);
  }
  add(groups, axis, group * side);
  add(along, plan.ndim - 1, side);
  if (group > 1)
    add(group, axis, side);
  return tiles;
}

/// Nothing where no operand is turned, or offsets behind the last tile would leave 32 bits.
template <class S, int K>
std::optional<Walk<K>> walk_in_tiles(const StridedPlan<K>& plan) noexcept {
  const int axis = axis_of_turned(plan), inner = plan.ndim - 1;
  if (axis < 0)
    return {};
  const std::int64_t along = (plan.inner() + S::k_side - 1) / S::k_side;
  const std::int64_t across = (plan.extents[axis] + S::k_side - 1) / S::k_side;
  // Tiles that run at a time then read long pieces of turned operands too.
  const std::int64_t group = plan.ndim < k_max_ndim ? std::min(across, k_tile_group) : 1;
  const std::int64_t groups = (across + group - 1) / group;
  const StridedPlan<K> tiles = plan_of_tiles(plan, axis, S::k_side, groups, along, group);
  if (!fits_32_bits(tiles))
    return {};
  Walk<K> walk(tiles);
  walk.along = static_cast<std::int32_t>(plan.inner());
  walk.across = static_cast<std::int32_t>(plan.extents[axis]);
  walk.group = Divider<std::int32_t>(group);
  walk.along_tiles = Divider<std::int32_t>(along);
  walk.across_groups = Divider<std::int32_t>(groups);
  std::int8_t slot = 0;
  for (int k = 0; k < K; ++k) {
    const bool turned = k > 0 && slot < k_turned && is_turned(plan, k, axis);
    if (turned)
      walk.slot[k] = slot++;
    walk.by_lane[k] = static_cast<std::int32_t>(plan.strides[k][turned ? axis : inner]);
    walk.by_line[k] = static_cast<std::int32_t>(plan.strides[k][turned ? inner : axis]);
    walk.next[k] = walk.by_line[k] * S::k_step;
  }
  return walk;
}

template <class S, int K>
Walk<K> walk_of(const StridedPlan<K>& plan, int at_once) noexcept {
  const auto in_tiles = walk_in_tiles<S>(plan);
  return in_tiles ? *in_tiles : walk_in_streams(plan, at_once);
}

/// U elements of a thread.
template <class C, int U>
struct Several {
  C at[U];
};

template <int U, class T>
__device__ Several<math::Compute<T>, U> read_several(
    const Source<T>& source, std::int32_t offset, std::int32_t next, int count) {
  using C = math::Compute<T>;
  Several<C, U> values;
  if (source.mode == ReadMode::constant) {
#pragma unroll
    for (int j = 0; j < U; ++j)
      values.at[j] = source.constant;
    return values;
  }
  T raw[U] = {};
#pragma unroll
  for (int j = 0; j < U; ++j) {
    if (j < count)
      raw[j] = source.data[offset + j * next];
  }
#pragma unroll
  for (int j = 0; j < U; ++j)
    values.at[j] = static_cast<C>(raw[j]);
  return values;
}

/// Operands in the memory of a block, to be read along the other axis. Rows are longer by a bank, so that neither way
/// lanes meet in one.
template <class Stage, class S, int N>
struct Tiles {
  Stage at[N][S::k_side][S::k_side + (sizeof(Stage) < 4 ? 4 / sizeof(Stage) : 1)];

  /// A thread's lines from `first` on.
  template <class C, int U>
  __device__ void put(int slot, int first, const Several<C, U>& values) {
    if (slot < 0)
      return;
#pragma unroll
    for (int j = 0; j < U; ++j) {
      if (j < S::k_lines)
        at[slot][S::line() + (first + j) * S::k_step][S::lane()] = static_cast<Stage>(values.at[j]);
    }
  }
  template <class C, int U>
  __device__ void take(int slot, int first, Several<C, U>& values) const {
    if (slot < 0)
      return;
#pragma unroll
    for (int j = 0; j < U; ++j) {
      if (j < S::k_lines)
        values.at[j] = static_cast<C>(at[slot][S::lane()][S::line() + (first + j) * S::k_step]);
    }
  }
};

template <class F, int U, class Out, class... C>
__device__ void write_several(Out* to, std::int32_t next, int count, const Several<C, U>&... values) {
#pragma unroll
  for (int j = 0; j < U; ++j) {
    if (j < count)
      to[j * next] = static_cast<Out>(F::of(values.at[j]...));
  }
}

/// Where a thread is in a tile or in its streams.
template <class S, class W>
struct Spot {
  const W& walk;
  decltype(walk.at.offsets(0)) offsets;
  Share share;

  __device__ Spot(const W& w, std::int32_t i) : walk(w), offsets(w.at.offsets(i)), share(w.template share<S>(i)) {}
  __device__ std::int32_t first(int k) const {
    return offsets[k] + S::lane() * walk.by_lane[k] + S::line() * walk.by_line[k];
  }
  __device__ int count(int k) const { return walk.slot[k] < 0 ? share.straight : share.turned; }
  /// Operand k from its line `from` on.
  template <int U, class In>
  __device__ auto read(const Source<In>& in, int k, int from) const {
    return read_several<U>(in, first(k) + from * walk.next[k], walk.next[k], count(k) - from);
  }
};

/// All loads are under way at once.
template <class F, int U, class S, class Turned, class Out, class W, class... C>
__device__ void turn_and_write(const W& walk, Turned& tiles, Out* to, int count, Several<C, U>... values) {
  if (walk.streams == 0) {
    int k = 0;
    (tiles.put(walk.slot[++k], 0, values), ...);
    __syncthreads();
    k = 0;
    (tiles.take(walk.slot[++k], 0, values), ...);
    __syncthreads();  // the next tile is put there
  }
  write_several<F>(to, walk.next[0], count, values...);
}

/// Streams, or a tile of more lines than a thread takes at once: turned operands first. The formula stands in one
/// place for both, as it is most of what there is to compile.
template <class F, int U, class S, class Turned, class Out, class W, std::size_t... I, class... In>
__device__ void apply_in_parts(
    const Spot<S, W>& spot, Turned& tiles, Out* out, std::index_sequence<I...>, const Source<In>&... in) {
  const W& walk = spot.walk;
  const bool tiled = walk.streams == 0;
  const auto put = [&](int k, const auto& source) {
    if (walk.slot[k] < 0)
      return;
#pragma unroll 1
    for (int line = 0; line < S::k_lines; line += U)
      tiles.put(walk.slot[k], line, spot.template read<U>(source, k, line));
  };
  const auto get = [&](int k, const auto& source, int line, auto& values) {
    if (walk.slot[k] < 0)
      values = spot.template read<U>(source, k, line);
    else
      tiles.take(walk.slot[k], line, values);
  };
  const auto write = [&](int line, auto... values) {
    if (tiled)
      (get(static_cast<int>(I) + 1, in, line, values), ...);
    else
      ((values = spot.template read<U>(in, static_cast<int>(I) + 1, 0)), ...);
    write_several<F>(out + spot.first(0) + line * walk.next[0], walk.next[0], spot.share.straight - line, values...);
  };
  if (tiled) {
    (put(static_cast<int>(I) + 1, in), ...);
    __syncthreads();
  }
  const int lines = tiled ? S::k_lines : U;
#pragma unroll 1
  for (int line = 0; line < lines; line += U)
    write(line, Several<math::Compute<In>, U>{}...);
  if (tiled)
    __syncthreads();  // the next tile is put there
}

template <class F, int U, class S, class Turned, class Out, class W, std::size_t... I, class... In>
__device__ void apply_several(
    const W& walk, Turned& tiles, std::int32_t i, Out* out, std::index_sequence<I...> each, const Source<In>&... in) {
  const Spot<S, W> spot(walk, i);
  if constexpr (S::k_lines > U) {
    apply_in_parts<F, U>(spot, tiles, out, each, in...);
  } else {
    turn_and_write<F, U, S>(
        walk,
        tiles,
        out + spot.first(0),
        spot.share.straight,
        spot.template read<U>(in, static_cast<int>(I) + 1, 0)...);
  }
}

/// What operands are kept as in a tile: as they are, if they are all alike, or as what is computed with.
template <class... In>
struct Staged;
template <class First, class... In>
struct Staged<First, In...> {
  using Numbers = std::common_type_t<math::Compute<First>, math::Compute<In>...>;
  using Type = std::conditional_t<(std::is_same_v<First, In> && ...), First, Numbers>;
};

template <class F, int U, class Out, class... In>
__global__ void __launch_bounds__(k_block)
    pointwise_walk_kernel(Walk<1 + static_cast<int>(sizeof...(In))> walk, Out* out, Source<In>... in) {
  start_early();
  using S = Square<k_side_of<Out, In...>>;
  constexpr int k_slots = sizeof...(In) < k_turned ? 1 : k_turned;
  __shared__ Tiles<typename Staged<In...>::Type, S, k_slots> tiles;
  // A block takes a tile, a thread its share of the streams.
  const bool tiled = walk.streams == 0;
  const auto first = static_cast<std::int32_t>(tiled ? blockIdx.x : blockIdx.x * blockDim.x + threadIdx.x);
  const auto step = static_cast<std::int32_t>(tiled ? gridDim.x : gridDim.x * blockDim.x);
  for (std::int32_t i = first; i < walk.at.size; i += step)
    apply_several<F, U, S>(walk, tiles, i, out, std::index_sequence_for<In...>{}, in...);
}

}  // namespace sluice::detail
