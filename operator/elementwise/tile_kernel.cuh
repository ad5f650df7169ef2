#pragma once

// The kernel that walks tiles (tiles.cuh).
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/operator/elementwise/operand.cuh>
#include <sluice/operator/elementwise/tiles.cuh>

namespace sluice::detail {

/// Elements of two lines and two columns of a tile, line by line.
template <class T>
using Quad = Several<T, 4>;

/// A thread's part of a tile: lines one after the other, two columns of each. In pairs the two are neighbours; single
/// elements are neighbours of other threads'.
template <int Side>
struct Part {
  static constexpr int k_lanes = Side / 2;
  static constexpr int k_step = k_block / k_lanes;  // lines of the tile that are read at once
  static constexpr int k_lines = Side / k_step;     // of a thread
  __device__ static std::int32_t lane() { return static_cast<std::int32_t>(threadIdx.x) % k_lanes; }
  __device__ static std::int32_t line() { return static_cast<std::int32_t>(threadIdx.x) / k_lanes; }
};

/// So many bytes as they lie.
template <std::size_t Bytes>
using WordOf = std::conditional_t<
    Bytes == 2,
    std::uint16_t,
    std::conditional_t<
        Bytes == 4,
        std::uint32_t,
        std::conditional_t<Bytes == 8, std::uint64_t, Neighbours<std::uint64_t, 2>>>>;

/// How much of a tile there is.
struct Left {
  std::int32_t lanes, lines;
};

/// Operands in the memory of a block. Rows of single elements are longer by a bank, so that threads beside each other
/// meet in none either way. Pairs lie one place on for every two rows: threads that read a column of them, each of two
/// rows, meet in none either.
template <class Stage, int Side, int N>
struct Tiles {
  using P = Part<Side>;
  using Pair = Neighbours<Stage, 2>;
  using Word = WordOf<sizeof(Pair)>;
  static constexpr int k_pitch = Side + (sizeof(Stage) < 4 ? 4 / static_cast<int>(sizeof(Stage)) : 1);
  alignas(sizeof(Pair)) Stage at[N][Side * k_pitch];

  /// All pairs of a thread.
  __device__ static Several<Word, P::k_lines> load_pairs(const Stage* data, std::int32_t by_line, Left left) {
    Several<Word, P::k_lines> raw = {};
    const Stage* const from = data + P::line() * by_line + 2 * P::lane();
    const std::int32_t lines = 2 * P::lane() < left.lanes ? left.lines - P::line() : 0;
#pragma unroll
    for (int j = 0; j < P::k_lines; ++j) {
      if (j * P::k_step < lines)
        raw.at[j] = *reinterpret_cast<const Word*>(from + j * P::k_step * by_line);
    }
    return raw;
  }
  __device__ void put_pairs(int slot, const Several<Word, P::k_lines>& raw) {
#pragma unroll
    for (int j = 0; j < P::k_lines; ++j) {
      const int row = P::line() + j * P::k_step, place = (P::lane() + row / 2) % P::k_lanes;
      *reinterpret_cast<Word*>(&at[slot][row * Side + 2 * place]) = raw.at[j];
    }
  }
  /// Those of lines 2 * pair and 2 * pair + 1 in a thread's two columns.
  __device__ Quad<Stage> take_pairs(int slot, bool turned, int pair) const {
    const Stage* const row = &at[slot][(turned ? P::lane() : pair) * 2 * Side + (pair + P::lane()) % P::k_lanes * 2];
    const Pair one = *reinterpret_cast<const Pair*>(row), other = *reinterpret_cast<const Pair*>(row + Side);
    return {one.at[0], turned ? other.at[0] : one.at[1], turned ? one.at[1] : other.at[0], other.at[1]};
  }

  template <class T>
  __device__ void put_singles(int slot, const T* data, std::int32_t by_lane, std::int32_t by_line, Left left) {
    constexpr int k_at_once = P::k_lines < 8 ? P::k_lines : 8;
    const std::int32_t column = P::lane(), other = column + P::k_lanes;
#pragma unroll 1
    for (int begin = P::line(); begin < Side; begin += k_at_once * P::k_step) {
      T first[k_at_once] = {}, second[k_at_once] = {};
#pragma unroll
      for (int j = 0; j < k_at_once; ++j) {
        const int line = begin + j * P::k_step;
        if (line < left.lines && column < left.lanes)
          first[j] = data[line * by_line + column * by_lane];
        if (line < left.lines && other < left.lanes)
          second[j] = data[line * by_line + other * by_lane];
      }
#pragma unroll
      for (int j = 0; j < k_at_once; ++j) {
        at[slot][(begin + j * P::k_step) * k_pitch + column] = static_cast<Stage>(first[j]);
        at[slot][(begin + j * P::k_step) * k_pitch + other] = static_cast<Stage>(second[j]);
      }
    }
  }
  /// The same of single elements.
  __device__ Quad<Stage> take_singles(int slot, bool turned, int pair) const {
    const int to_line = turned ? 1 : k_pitch, to_column = turned ? k_pitch : 1;
    const Stage* const first = &at[slot][2 * pair * to_line + P::lane() * to_column];
    const Stage* const second = first + P::k_lanes * to_column;
    return {first[0], second[0], first[to_line], second[to_line]};
  }
};

/// Where a block is.
template <int Side, class W>
struct TileSpot {
  using P = Part<Side>;
  const W& walk;
  Left left;

  __device__ TileSpot(const W& w, std::int32_t tile) : walk(w) {
    const std::int32_t of_group = w.group.divide(tile), of_row = w.along_tiles.divide(of_group);
    const std::int32_t of_rest = w.groups.divide(of_row);
    begin_along_ = (of_group - of_row * w.along_tiles.value()) * Side;
    begin_across_ =
        ((of_row - of_rest * w.groups.value()) * w.group.value() + tile - of_group * w.group.value()) * Side;
    left = {w.along - begin_along_, w.across - begin_across_};
    rest_ = w.rest.offsets(of_rest);
  }
  __device__ std::int32_t offset(int k) const {
    return rest_[k] + begin_along_ * walk.by_along[k] + begin_across_ * walk.by_across[k];
  }
  __device__ std::int32_t by_line(int k) const { return walk.turned[k] ? walk.by_along[k] : walk.by_across[k]; }
  __device__ Left left_of(int k) const { return walk.turned[k] ? Left{left.lines, left.lanes} : left; }

  template <class Turned, class T>
  __device__ auto load_pairs(const Turned& tiles, const ReadOperand<T>& operand, int k) const {
    if (operand.mode == ReadMode::constant)
      return decltype(tiles.load_pairs(operand.data, 0, left)){};
    return tiles.load_pairs(operand.data + offset(k), by_line(k), left_of(k));
  }
  template <class Turned, class T>
  __device__ void put_singles(Turned& tiles, const ReadOperand<T>& operand, int k) const {
    if (walk.slot[k] >= 0) {
      const std::int32_t by_lane = walk.turned[k] ? walk.by_across[k] : walk.by_along[k];
      tiles.put_singles(walk.slot[k], operand.data + offset(k), by_lane, by_line(k), left_of(k));
    }
  }

  template <class Turned, class T>
  __device__ auto take_singles(const Turned& tiles, const ReadOperand<T>& operand, int k, int pair) const {
    using C = math::Compute<T>;
    if (walk.slot[k] < 0)
      return computed(operand, in_place(operand, k, pair));
    const auto quad = tiles.take_singles(walk.slot[k], walk.turned[k], pair);
    return Quad<C>{C(quad.at[0]), C(quad.at[1]), C(quad.at[2]), C(quad.at[3])};
  }
  template <class Out>
  __device__ void write_singles(Out* out, int pair, const Quad<Out>& values) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int32_t line = 2 * pair + j / 2, column = P::lane() + j % 2 * P::k_lanes;
      if (line < left.lines && column < left.lanes)
        out[offset(0) + line * walk.by_across[0] + column * walk.by_along[0]] = values.at[j];
    }
  }

 private:
  /// Of an operand that is not in shared memory.
  template <class T>
  __device__ Quad<T> in_place(const ReadOperand<T>& operand, int k, int pair) const {
    Quad<T> raw = {};
    if (operand.mode == ReadMode::constant)
      return raw;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int32_t line = 2 * pair + j / 2, column = P::lane() + j % 2 * P::k_lanes;
      if (line < left.lines && column < left.lanes)
        raw.at[j] = operand.data[offset(k) + line * walk.by_across[k] + column * walk.by_along[k]];
    }
    return raw;
  }

  std::int32_t begin_along_, begin_across_;
  decltype(std::declval<W>().rest.offsets(0)) rest_;
};

/// What operands are kept as in a tile: as they are, if they are all alike, or as what is computed with.
template <class... In>
struct Staged;
template <class First, class... In>
struct Staged<First, In...> {
  using Numbers = std::common_type_t<math::Compute<First>, math::Compute<In>...>;
  using Type = std::conditional_t<(std::is_same_v<First, In> && ...), First, Numbers>;
};

/// Blocks of a multiprocessor at least, so that some read while others write.
template <class... T>
inline constexpr int k_tile_blocks = !k_in_pairs<T...>        ? 1
                                     : k_side_of<T...> == 128 ? 3
                                     : k_side_of<T...> == 64  ? 4
                                                              : 1;

template <class F, int Side, class At, class Turned, class Out, std::size_t... I, class... In>
__device__ void apply_to_singles(
    const At& spot, Turned& tiles, Out* out, std::index_sequence<I...>, const ReadOperand<In>&... in) {
  (spot.put_singles(tiles, in, static_cast<int>(I) + 1), ...);
  __syncthreads();
#pragma unroll 1
  for (int pair = Part<Side>::line(); pair < Side / 2; pair += Part<Side>::k_step)
    spot.write_singles(out, pair, applied<F, Out>(spot.take_singles(tiles, in, static_cast<int>(I) + 1, pair)...));
}

/// The loads of all operands are under way before one is put down. Operand k has the slot k - 1.
template <class F, int Side, class At, class Turned, class Out, std::size_t... I, class... In>
__device__ void apply_to_pairs(
    const At& spot, Turned& tiles, Out* out, std::index_sequence<I...>, const ReadOperand<In>&... in) {
  using P = Part<Side>;
  const auto put = [&](const auto&... raw) { (tiles.put_pairs(static_cast<int>(I), raw), ...); };
  put(spot.load_pairs(tiles, in, static_cast<int>(I) + 1)...);
  __syncthreads();
  const std::int32_t by_line = spot.walk.by_across[0];
  const int end = 2 * P::lane() < spot.left.lanes ? min(Side, spot.left.lines) / 2 : 0;
  Out* to = out + spot.offset(0) + 2 * P::line() * by_line + 2 * P::lane();
#pragma unroll 1
  for (int pair = P::line(); pair < end; pair += P::k_step, to += 2 * P::k_step * by_line) {
    const auto made =
        applied<F, Out>(computed(in, tiles.take_pairs(static_cast<int>(I), spot.walk.turned[I + 1], pair))...);
    *reinterpret_cast<Neighbours<Out, 2>*>(to) = {made.at[0], made.at[1]};
    *reinterpret_cast<Neighbours<Out, 2>*>(to + by_line) = {made.at[2], made.at[3]};
  }
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(k_block, (k_tile_blocks<Out, In...>))
    pointwise_tiles_kernel(TileWalk<1 + static_cast<int>(sizeof...(In))> walk, Out* out, ReadOperand<In>... in) {
  start_early();
  constexpr int k_side = k_side_of<Out, In...>, k_slots = sizeof...(In) < k_tile_slots ? 1 : k_tile_slots;
  constexpr auto k_each = std::index_sequence_for<In...>{};
  __shared__ Tiles<typename Staged<In...>::Type, k_side, k_slots> tiles;
  for (auto tile = static_cast<std::int32_t>(blockIdx.x); tile < walk.tiles; tile += gridDim.x) {
    const TileSpot<k_side, TileWalk<1 + static_cast<int>(sizeof...(In))>> spot(walk, tile);
    if constexpr (k_in_pairs<Out, In...>) {
      if (walk.pairs)
        apply_to_pairs<F, k_side>(spot, tiles, out, k_each, in...);
      else
        apply_to_singles<F, k_side>(spot, tiles, out, k_each, in...);
    } else {
      apply_to_singles<F, k_side>(spot, tiles, out, k_each, in...);
    }
    __syncthreads();  // the next tile is put there
  }
}

}  // namespace sluice::detail
