#pragma once

// Turned copies of elements of 2 or 4 bytes where rows are not whole vectors, so that each begins at another place in
// them: odd extents, parts of larger arrays. Memory is read and written in whole vectors all the same.
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/ndarray/detail/turn.cuh>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/neighbours.cuh>

namespace sluice::detail {

/// How far before its place a tile begins at most.
template <class Bits>
inline constexpr int k_reach = sizeof(Bits) == 2 || sizeof(Bits) == 4 ? 32 / sizeof(Bits) - 1 : 0;

/// A tile in shared memory: lines as they are read, columns as they are written. Each column is written from where
/// 32 bytes begin, which memory takes at once; so a tile has lines before its first place, which the tile before it
/// reads as well.
template <class Bits, int Pitch>
struct OddTile {
  static constexpr int V = k_neighbours<Bits>, k_side = k_tile<Bits>;
  static constexpr int k_piece = k_reach<Bits> + 1, k_lines = k_side + k_reach<Bits>;
  static constexpr int k_across = k_block / (k_side / V);  // lines that are read, and columns written, at once
  static_assert(k_side / V == 16 && k_across % k_piece == 0 && Pitch >= k_side + 2 * (V - 1));

  /// As many elements as a vector has, less one, lie before a line and behind it.
  __device__ Bits& at(int line, int along) { return elements[line * Pitch + V - 1 + along]; }

  Bits elements[k_lines * Pitch];
};

/// The part of both arrays that a block moves.
template <class Bits, int Pitch>
struct OddPiece {
  using Tile = OddTile<Bits, Pitch>;
  static constexpr int V = Tile::V, k_side = Tile::k_side, k_warp_lanes = 32;
  using Vector = Neighbours<Bits, V>;

  const Bits* in;  // of the tile's first line, its first column
  Bits* out;
  std::int64_t read_step, write_step;
  int first_line, end_line;    // lines of the tile that there are
  int first_along, end_along;  // places along the lines that there are, a vector beside the tile included
  int columns;

  template <class G>
  __device__ OddPiece(const Place& place, const G& rest, const Turn& turn, int reach, Bits* to, const Bits* from)
      : read_step(turn.read_step), write_step(turn.write_step) {
    const std::int64_t write = std::int64_t{place.write_tile} * k_side - k_reach<Bits>;
    const std::int64_t read = std::int64_t{place.read_tile} * k_side;
    const auto offsets = rest.offsets(static_cast<typename G::IndexType>(place.rest));
    in = from + offsets[1] + read + write * read_step;
    out = to + offsets[0] + write + read * write_step;
    first_line = max(static_cast<int>(max(-write, std::int64_t{0})), k_reach<Bits> - reach);
    end_line = static_cast<int>(min(turn.write_extent - write, std::int64_t{Tile::k_lines}));
    first_along = read == 0 ? 0 : 1 - V;
    end_along = static_cast<int>(min(turn.read_extent - read, std::int64_t{k_side + V - 1}));
    columns = min(end_along, k_side);
  }

  /// Elements from where so many begin at a multiple of their size to `element`.
  __device__ static int behind(const Bits* element, int many = V) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(element) / sizeof(Bits)) & (many - 1);
  }
  __device__ const Bits* line(int i) const { return in + i * read_step; }
  __device__ bool has_line(int i) const { return (i >= first_line) & (i < end_line); }
  /// A vector that lies in the array, and at least in part in the tile.
  __device__ bool has_vector(int along) const {
    return along >= first_along && along + V <= end_along && along < k_side;
  }

  /// All whole vectors, loads of a thread under way at once. The lines of a thread are so far apart that they begin at
  /// the same place in a vector.
  __device__ void read_vectors(Tile& tile) const {
    constexpr int k_passes = (Tile::k_lines + Tile::k_across - 1) / Tile::k_across;
    const int thread = static_cast<int>(threadIdx.x), across = thread / (k_side / V);
    const int along = thread % (k_side / V) * V - behind(line(across));
    // Of a line that begins within a vector there is one more.
    const int last = k_side - behind(line(thread));
    const bool inside = has_vector(along), one_more = has_line(thread) && has_vector(last);
    Vector loaded[k_passes], other;
    bool there[k_passes];
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      const int i = across + pass * Tile::k_across;
      there[pass] = inside & has_line(i);
      if (there[pass])
        loaded[pass] = *reinterpret_cast<const Vector*>(line(i) + along);
    }
    if (one_more)
      other = *reinterpret_cast<const Vector*>(line(thread) + last);
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (there[pass])
        put(&tile.at(across + pass * Tile::k_across, along), loaded[pass]);
    }
    if (one_more)
      put(&tile.at(thread, last), other);
  }
  __device__ static void put(Bits* to, const Vector& values) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      to[k] = values.at[k];
  }

  /// Elements of vectors that lie only in part in the array, at the ends of its lines.
  __device__ void read_ends(Tile& tile) const {
    const bool first = first_along == 0, last = end_along < k_side + V - 1;
    if (!first && !last)
      return;
    constexpr int k_ends = Tile::k_lines * 2 * V, k_passes = (k_ends + k_block - 1) / k_block;
    Bits found[k_passes];
    int places[k_passes];
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      const int t = pass * k_block + static_cast<int>(threadIdx.x), i = t / (2 * V), k = t % (2 * V);
      const int phase = behind(line(i));
      const int head = first ? min((V - phase) & (V - 1), columns) : 0;
      const int tail = last ? max(head, end_along - ((end_along + phase) & (V - 1))) : columns;
      const int along = k < V ? k : tail + k - V;
      places[pass] = has_line(i) && along < (k < V ? head : columns) ? along : -1;
      if (places[pass] >= 0)
        found[pass] = line(i)[along];
    }
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (places[pass] >= 0)
        tile.at((pass * k_block + static_cast<int>(threadIdx.x)) / (2 * V), places[pass]) = found[pass];
    }
  }

  /// A warp writes eight vectors of each of four columns. The compiler writes them whole only where it can see that
  /// they begin at multiples of their size: with a number in place of k_reach that it does not know it writes words.
  __device__ void write(Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % k_warp_lanes, warp = static_cast<int>(threadIdx.x) / k_warp_lanes;
    const int vector = lane % 8 + warp % 2 * 8, column = lane / 8 + warp / 2 * 4;
    Bits* const line = out + column * write_step;
    const int begin = vector * V + k_reach<Bits> - behind(line + k_reach<Bits>, Tile::k_piece);
    Bits* const to = line + begin;
    if (begin < first_line || begin + V > end_line) {
#pragma unroll 1
      for (int c = column; c < columns; c += Tile::k_across) {
#pragma unroll
        for (int i = begin; i < begin + V; ++i) {
          if (has_line(i))
            out[c * write_step + i] = tile.at(i, c);
        }
      }
      return;
    }
#pragma unroll
    for (int pass = 0; pass < k_side / Tile::k_across; ++pass) {
      if (column + pass * Tile::k_across < columns) {
        Vector made;
#pragma unroll
        for (int k = 0; k < V; ++k)
          made.at[k] = tile.at(begin + k, column + pass * Tile::k_across);
        *reinterpret_cast<Vector*>(to + pass * Tile::k_across * write_step) = made;
      }
    }
  }
};

template <int Pitch, class Bits, class G>
__global__ void __launch_bounds__(k_block, (sizeof(Bits) == 4 ? 4 : 3))
    copy_odd_tiles(G rest, Turn turn, int reach, Bits* to, const Bits* from) {
  start_early();
  __shared__ OddTile<Bits, Pitch> tile;
  const Place place(blockIdx.x, turn);
  if (place.read_tile >= turn.read_tiles)
    return;
  const OddPiece<Bits, Pitch> piece(place, rest, turn, reach, to, from);
  piece.read_vectors(tile);
  piece.read_ends(tile);
  __syncthreads();
  piece.write(tile);
}

/// Launches copy_odd_tiles for a turn that is cut with this `reach`. Lines are so long that threads of a warp meet in a
/// bank twice at most on the average: of 2 bytes that must not be, modulo 8, the step of one of the arrays.
template <class Bits, class G>
void launch_odd_tiles(cudaStream_t stream, const G& rest, const Turn& turn, int reach, Bits* to, const Bits* from) {
  if constexpr (sizeof(Bits) == 4) {
    copy_odd_tiles<70><<<turn.blocks, k_block, 0, stream>>>(rest, turn, reach, to, from);
  } else if (turn.read_step % 8 != 1 && turn.write_step % 8 != 1) {
    copy_odd_tiles<145><<<turn.blocks, k_block, 0, stream>>>(rest, turn, reach, to, from);
  } else {
    copy_odd_tiles<147><<<turn.blocks, k_block, 0, stream>>>(rest, turn, reach, to, from);
  }
}

}  // namespace sluice::detail
