// Copies between arrays whose neighbours lie along different axes.
#include <sluice/ndarray/detail/copy_transposed.cuh>
#include <sluice/ndarray/detail/odd_tiles.cuh>
#include <sluice/ndarray/detail/turn.cuh>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/plan_beside.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_worth = 16;  // shorter axes leave most of a tile idle
constexpr int k_under_way = 16;       // loads of a thread
/// Elements that are kept in words of 4 bytes.
template <class Bits>
constexpr bool k_in_words = sizeof(Bits) == 2 || sizeof(Bits) == 4;

/// Which axis is read along, the innermost is written along; -1 where there is no such pair.
int read_axis_of(const CopyPlan& plan) noexcept {
  const int write_axis = plan.ndim - 1;
  if (plan.strides[0][write_axis] != 1 || plan.strides[1][write_axis] == 1 || plan.extents[write_axis] < k_worth)
    return -1;
  for (int axis = 0; axis < write_axis; ++axis) {
    if (plan.strides[1][axis] == 1 && plan.extents[axis] >= k_worth)
      return axis;
  }
  return -1;
}

/// The part of both arrays that a block moves: where it begins, and how much of a tile there is.
template <class Bits>
struct Piece {
  const Bits* in;
  Bits* out;
  int reads, writes;

  template <class G>
  __device__ Piece(const Place& place, const G& rest, const Turn& turn, Bits* to, const Bits* from) {
    constexpr std::int64_t k_side = k_tile<Bits>;
    const std::int64_t write = place.write_tile * k_side, read = place.read_tile * k_side;
    const auto offsets = rest.offsets(static_cast<typename G::IndexType>(place.rest));
    in = from + offsets[1] + read + write * turn.read_step;
    out = to + offsets[0] + write + read * turn.write_step;
    writes = static_cast<int>(min(turn.write_extent - write, k_side));
    reads = static_cast<int>(min(turn.read_extent - read, k_side));
  }
};

/// A block moves a tile through shared memory; it reads and writes vectors of V neighbours, many of a thread's loads
/// under way at once. Rows there are longer by a bank, so that neither direction meets its own banks more than twice.
template <int V, class Bits, class G>
__global__ void __launch_bounds__(k_block) copy_tiles(G rest, Turn turn, Bits* to, const Bits* from) {
  start_early();
  using Vector = Neighbours<Bits, V>;
  constexpr int k_side = k_tile<Bits>, k_lanes = k_side / V, k_step = k_block / k_lanes, k_passes = k_side / k_step;
  constexpr int k_at_once = k_passes < k_under_way ? k_passes : k_under_way;
  constexpr int k_pad = sizeof(Bits) < 4 ? static_cast<int>(4 / sizeof(Bits)) : 1;
  __shared__ Bits tile[k_side][k_side + k_pad];
  const int along = static_cast<int>(threadIdx.x) % k_lanes * V, across = static_cast<int>(threadIdx.x) / k_lanes;
  for (unsigned block = blockIdx.x; block < turn.blocks; block += gridDim.x) {
    const Place place(block, turn);
    if (place.read_tile >= turn.read_tiles)
      continue;
    const Piece<Bits> piece(place, rest, turn, to, from);
    for (int first = across; first < k_side; first += k_at_once * k_step) {
      Vector loaded[k_at_once];
#pragma unroll
      for (int pass = 0; pass < k_at_once; ++pass) {
        const int line = first + pass * k_step;
        if (line < piece.writes && along < piece.reads)
          loaded[pass] = *reinterpret_cast<const Vector*>(piece.in + along + line * turn.read_step);
      }
#pragma unroll
      for (int pass = 0; pass < k_at_once; ++pass) {
#pragma unroll
        for (int k = 0; k < V; ++k)
          tile[first + pass * k_step][along + k] = loaded[pass].at[k];
      }
    }
    __syncthreads();
    if (along < piece.writes) {
#pragma unroll 4
      for (int line = across; line < piece.reads; line += k_step) {
        Vector column;
#pragma unroll
        for (int k = 0; k < V; ++k)
          column.at[k] = tile[along + k][line];
        *reinterpret_cast<Vector*>(piece.out + along + line * turn.write_step) = column;
      }
    }
    __syncthreads();
  }
}

/// Blocks of a multiprocessor: some write while others read. Their tiles and what their threads have under way fit.
template <class Bits>
constexpr int k_blocks_at_once = sizeof(Bits) == 4 ? 5 : 3;

/// Elements of 4 or 2 bytes where every 16 bytes are whole: tiles of 64 words a row are kept as vectors of 4, which go
/// in at once. Where a vector lies depends on its row, so that words of a column lie in different banks, but for two. A
/// thread takes words out of 16 bytes of rows: one vector to write, or where a word holds two elements two of them.
template <class Bits, class G>
__global__ void __launch_bounds__(k_block, k_blocks_at_once<Bits>)
    copy_word_tiles(G rest, Turn turn, Bits* to, const Bits* from) {
  start_early();
  using Word = std::uint32_t;
  using Vector = Neighbours<Word, 4>;
  constexpr int k_parts = sizeof(Word) / sizeof(Bits), V = 4 * k_parts, k_side = k_tile<Bits>;
  constexpr int k_lanes = k_side / V, k_step = k_block / k_lanes, k_passes = k_side / k_step,
                k_words = k_side / k_parts;
  static_assert(k_lanes == 16 && (k_parts == 1 || k_parts == 2));
  __shared__ Vector tile[k_side][k_lanes];
  const int lane = static_cast<int>(threadIdx.x) % k_lanes, along = lane * V;
  const int across = static_cast<int>(threadIdx.x) / k_lanes;
  const auto bank_of = [](int row, int vector) { return vector ^ (row / V % 8); };
  for (unsigned block = blockIdx.x; block < turn.blocks; block += gridDim.x) {
    const Place place(block, turn);
    if (place.read_tile >= turn.read_tiles)
      continue;
    const Piece<Bits> piece(place, rest, turn, to, from);
    Vector loaded[k_passes];
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      const int line = across + pass * k_step;
      if (line < piece.writes && along < piece.reads)
        loaded[pass] = *reinterpret_cast<const Vector*>(piece.in + along + line * turn.read_step);
    }
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass)
      tile[across + pass * k_step][bank_of(across + pass * k_step, lane)] = loaded[pass];
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < k_words / k_step; ++pass) {
      const int word = across + pass * k_step, line = word * k_parts;
      if (line >= piece.reads || along >= piece.writes)
        continue;
      Word column[V];
#pragma unroll
      for (int k = 0; k < V; ++k)
        column[k] = tile[along + k][bank_of(along + k, word / 4)].at[word % 4];
      Bits* const out = piece.out + along + line * turn.write_step;
#pragma unroll
      for (int part = 0; part < k_parts; ++part) {
        Vector made;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if constexpr (k_parts == 1) {
            made.at[k] = column[k];
          } else {
            const Word first = column[2 * k], second = column[2 * k + 1];
            made.at[k] = part == 0 ? (first & 0xffffu) | second << 16 : first >> 16 | (second & 0xffff0000u);
          }
        }
        *reinterpret_cast<Vector*>(out + part * turn.write_step) = made;
      }
    }
    __syncthreads();
  }
}

/// Every vector of V elements, in either array, begins at a multiple of its size.
template <class Bits>
bool in_vectors(const CopyPlan& plan, int read_axis, int V, const Bits* to, const Bits* from) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (address % (sizeof(Bits) * static_cast<std::size_t>(V)) != 0)
    return false;
  const int write_axis = plan.ndim - 1;
  if (plan.extents[read_axis] % V != 0 || plan.extents[write_axis] % V != 0)
    return false;
  for (int axis = 0; axis < plan.ndim; ++axis) {
    if ((axis != write_axis && plan.strides[0][axis] % V != 0) || (axis != read_axis && plan.strides[1][axis] % V != 0))
      return false;
  }
  return true;
}

/// Where tiles begin before their places: nowhere, where all that is written begins with a piece of memory.
template <class Bits>
int reach_of(const CopyPlan& plan, const Bits* to) noexcept {
  constexpr int k_piece = k_reach<Bits> + 1;
  bool whole = reinterpret_cast<std::uintptr_t>(to) % (sizeof(Bits) * k_piece) == 0;
  for (int axis = 0; axis + 1 < plan.ndim; ++axis)
    whole = whole && plan.strides[0][axis] % k_piece == 0;
  return whole ? 0 : k_reach<Bits>;
}

/// Whether rows that are not whole vectors go by odd tiles. Elements of 4 bytes are as fast one by one where all that
/// is written begins with a piece of memory, and where a large GPU's cache holds both arrays, for it puts pieces
/// together.
template <class Bits>
bool in_odd_tiles(const CopyPlan& plan, int reach) noexcept {
  constexpr std::int64_t k_beyond_cache = 8 << 20;
  return sizeof(Bits) == 2 || (sizeof(Bits) == 4 && reach != 0 && plan.size >= k_beyond_cache);
}

template <class Bits>
bool launch_transposed(cudaStream_t stream, const CopyPlan& plan, Bits* to, const Bits* from) {
  const int read_axis = read_axis_of(plan);
  if (read_axis < 0)
    return false;
  constexpr int V = k_in_words<Bits> ? 16 / sizeof(Bits) : sizeof(Bits) == 8 ? 2 : 4;
  const bool whole = in_vectors(plan, read_axis, V, to, from);
  const int reach = reach_of(plan, to);
  const bool odd = !whole && in_odd_tiles<Bits>(plan, reach);
  const CopyPlan rest = plan_beside(plan, read_axis);
  Turn turn(plan, read_axis);
  if (!turn.cut(k_tile<Bits>, odd ? reach : 0, rest.size))
    return false;
  with_geometry(rest, [&](auto at) {
    if constexpr (k_in_words<Bits>) {
      if (whole)
        copy_word_tiles<<<turn.blocks, k_block, 0, stream>>>(at, turn, to, from);
      else if (odd)
        launch_odd_tiles(stream, at, turn, reach, to, from);
    } else if (whole) {
      copy_tiles<V><<<turn.blocks, k_block, 0, stream>>>(at, turn, to, from);
    }
    if constexpr (sizeof(Bits) != 2) {
      if (!whole && !odd)
        copy_tiles<1><<<turn.blocks, k_block, 0, stream>>>(at, turn, to, from);
    }
    check_early_launch("copy_tiles", stream);
  });
  return true;
}

}  // namespace

bool copy_transposed(void* stream, const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  const auto on = static_cast<cudaStream_t>(stream);
  return by_element_size(element, [&]<class Bits>() {
    return launch_transposed(on, plan, static_cast<Bits*>(to), static_cast<const Bits*>(from));
  });
}

}  // namespace sluice::detail
