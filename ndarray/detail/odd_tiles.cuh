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
template <class Bits>
struct OddTile {
  static constexpr int V = k_neighbours<Bits>, k_side = k_tile<Bits>;
  static constexpr int k_piece = k_reach<Bits> + 1, k_lines = k_side + k_reach<Bits>;
  static constexpr int k_across = k_block / (k_side / V);  // lines that are read, and columns written, at once
  static constexpr int k_least_pitch = k_side + 2 * (V - 1), k_most_pitch = k_least_pitch + (sizeof(Bits) == 2 ? 7 : 0);
  static_assert(k_side / V == 16 && k_across % k_piece == 0);

  /// Elements from line to line, such that threads of a warp meet in a bank twice at most on the average: of elements
  /// of 2 bytes none that is, modulo 8, the step of one of the arrays, for then all of them meet in a few.
  static int pitch(const Turn& turn) noexcept {
    if constexpr (sizeof(Bits) != 2)
      return k_least_pitch;
    int pitch = k_least_pitch + 3;
    while ((pitch - turn.read_step) % 8 == 0 || (pitch - turn.write_step) % 8 == 0)
      pitch += 2;
    return pitch;
  }
  /// The first element of a line; as many as a vector has, less one, lie before it and behind the line.
  __device__ Bits* line(int i, int pitch) { return elements + i * pitch + V - 1; }

  Bits elements[k_lines * k_most_pitch];
};

/// The part of both arrays that a block moves.
template <class Bits>
struct OddPiece {
  using Tile = OddTile<Bits>;
  static constexpr int V = Tile::V, k_side = Tile::k_side, k_warp_lanes = 32;
  using Vector = Neighbours<Bits, V>;

  const Bits* in;  // of the tile's first line, its first column
  Bits* out;
  std::int64_t read_step, write_step;
  int first_line, end_line;    // lines of the tile that there are
  int first_along, end_along;  // places along the lines that there are, a vector beside the tile included
  int columns;
  int pitch;

  template <class G>
  __device__ OddPiece(const Place& place, const G& rest, const Turn& turn, int tile_pitch, Bits* to, const Bits* from)
      : read_step(turn.read_step), write_step(turn.write_step), pitch(tile_pitch) {
    const std::int64_t write = std::int64_t{place.write_tile} * k_side - k_reach<Bits>;
    const std::int64_t read = std::int64_t{place.read_tile} * k_side;
    const auto offsets = rest.offsets(static_cast<typename G::IndexType>(place.rest));
    in = from + offsets[1] + read + write * read_step;
    out = to + offsets[0] + write + read * write_step;
    first_line = write < 0 ? static_cast<int>(-write) : 0;
    end_line = static_cast<int>(min(turn.write_extent - write, std::int64_t{Tile::k_lines}));
    first_along = read == 0 ? 0 : 1 - V;
    end_along = static_cast<int>(min(turn.read_extent - read, std::int64_t{k_side + V - 1}));
    columns = min(end_along, k_side);
  }

  /// Elements from where a vector begins to `element`.
  __device__ static int behind(const Bits* element, int vector) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(element) / sizeof(Bits)) & (vector - 1);
  }
  __device__ const Bits* line(int i) const { return in + i * read_step; }
  __device__ bool has_line(int i) const { return i >= first_line && i < end_line; }
  /// A vector that lies in the array, and at least in part in the tile.
  __device__ bool has_vector(int along) const {
    return along >= first_along && along + V <= end_along && along < k_side;
  }

  /// All whole vectors, loads of a thread under way at once. The lines of a thread are so far apart that they begin at
  /// the same place in a vector.
  __device__ void read_vectors(Tile& tile) const {
    constexpr int k_passes = (Tile::k_lines + Tile::k_across - 1) / Tile::k_across;
    const int thread = static_cast<int>(threadIdx.x), across = thread / (k_side / V);
    const int along = thread % (k_side / V) * V - behind(line(across), V);
    // Of a line that begins within a vector there is one more.
    const int last = k_side - behind(line(thread), V);
    const bool inside = has_vector(along), one_more = has_line(thread) && has_vector(last);
    Vector loaded[k_passes], other;
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (inside && has_line(across + pass * Tile::k_across))
        loaded[pass] = *reinterpret_cast<const Vector*>(line(across + pass * Tile::k_across) + along);
    }
    if (one_more)
      other = *reinterpret_cast<const Vector*>(line(thread) + last);
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (inside && has_line(across + pass * Tile::k_across))
        put(tile.line(across + pass * Tile::k_across, pitch) + along, loaded[pass]);
    }
    if (one_more)
      put(tile.line(thread, pitch) + last, other);
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
#pragma unroll 1
    for (int t = static_cast<int>(threadIdx.x); t < Tile::k_lines * 2 * V; t += k_block) {
      const int i = t / (2 * V), k = t % (2 * V);
      if (!has_line(i))
        continue;
      const int phase = behind(line(i), V);
      const int head = first ? min((V - phase) & (V - 1), columns) : 0;
      const int tail = last ? max(head, end_along - ((end_along + phase) & (V - 1))) : columns;
      const int along = k < V ? k : tail + k - V;
      if (along < (k < V ? head : columns))
        tile.line(i, pitch)[along] = line(i)[along];
    }
  }

  /// A warp writes eight vectors of each of four columns.
  __device__ void write(Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % k_warp_lanes, warp = static_cast<int>(threadIdx.x) / k_warp_lanes;
    const int vector = lane % 8 + warp % 2 * 8, column = lane / 8 + warp / 2 * 4;
    const int begin = vector * V + k_reach<Bits> - behind(out + column * write_step + k_reach<Bits>, Tile::k_piece);
    if (begin < first_line || begin + V > end_line) {
#pragma unroll 1
      for (int c = column; c < columns; c += Tile::k_across) {
        for (int i = max(begin, first_line); i < min(begin + V, end_line); ++i)
          out[c * write_step + i] = tile.line(i, pitch)[c];
      }
      return;
    }
#pragma unroll
    for (int c = column; c < k_side; c += Tile::k_across) {
      if (c >= columns)
        continue;
      Vector made;
#pragma unroll
      for (int k = 0; k < V; ++k)
        made.at[k] = tile.line(begin + k, pitch)[c];
      *reinterpret_cast<Vector*>(out + c * write_step + begin) = made;
    }
  }
};

template <class Bits, class G>
__global__ void __launch_bounds__(k_block, (sizeof(Bits) == 4 ? 4 : 3))
    copy_odd_tiles(G rest, Turn turn, int pitch, Bits* to, const Bits* from) {
  start_early();
  __shared__ OddTile<Bits> tile;
  const Place place(blockIdx.x, turn);
  if (place.read_tile >= turn.read_tiles)
    return;
  const OddPiece<Bits> piece(place, rest, turn, pitch, to, from);
  piece.read_vectors(tile);
  piece.read_ends(tile);
  __syncthreads();
  piece.write(tile);
}

}  // namespace sluice::detail
