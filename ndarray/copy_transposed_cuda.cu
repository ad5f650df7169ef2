// Copies between arrays whose neighbours lie along different axes.
#include <sluice/ndarray/detail/copy_transposed.cuh>

namespace sluice::detail {
namespace {

constexpr int k_tile = 64;            // elements along each side of a tile in shared memory
constexpr std::int64_t k_worth = 16;  // shorter axes leave most of a tile idle

/// The two axes of a plan along which elements are neighbours: where they are read, and where they are written.
struct Turn {
  std::int64_t read_extent, write_extent;
  std::int64_t read_step;   // elements read, from one place along the written axis to the next
  std::int64_t write_step;  // elements written, from one place along the read axis to the next
  unsigned read_tiles, write_tiles, blocks;
};

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

/// The axes of `plan` but for the two.
CopyPlan rest_of(const CopyPlan& plan, int read_axis) noexcept {
  CopyPlan rest;
  rest.ndim = 0;
  for (int axis = 0; axis + 1 < plan.ndim; ++axis) {
    if (axis == read_axis)
      continue;
    rest.extents[rest.ndim] = plan.extents[axis];
    rest.size *= plan.extents[axis];
    for (int k = 0; k < 2; ++k)
      rest.strides[k][rest.ndim] = plan.strides[k][axis];
    ++rest.ndim;
  }
  if (rest.ndim == 0) {
    rest.ndim = 1;
    rest.extents[0] = 1;
  }
  return rest;
}

/// Where a block works.
struct Place {
  unsigned read_tile, write_tile, rest;

  __device__ Place(unsigned block, const Turn& turn)
      : read_tile(block / turn.write_tiles % turn.read_tiles),
        write_tile(block % turn.write_tiles),
        rest(block / turn.write_tiles / turn.read_tiles) {}
};

/// A block moves a tile through shared memory; it reads and writes vectors of V neighbours, all of a thread's loads
/// under way at once. Rows there are longer by a bank, so that neither direction meets its own banks more than twice.
template <int V, class Bits, class G>
__global__ void __launch_bounds__(k_block) copy_tiles(G rest, Turn turn, Bits* to, const Bits* from) {
  using Vector = Neighbours<Bits, V>;
  constexpr int k_lanes = k_tile / V, k_step = k_block / k_lanes, k_passes = k_tile / k_step;
  constexpr int k_pad = sizeof(Bits) < 4 ? static_cast<int>(4 / sizeof(Bits)) : 1;
  __shared__ Bits tile[k_tile][k_tile + k_pad];
  const int along = static_cast<int>(threadIdx.x) % k_lanes * V, across = static_cast<int>(threadIdx.x) / k_lanes;
  for (unsigned block = blockIdx.x; block < turn.blocks; block += gridDim.x) {
    const Place place(block, turn);
    const std::int64_t write = static_cast<std::int64_t>(place.write_tile) * k_tile;
    const std::int64_t read = static_cast<std::int64_t>(place.read_tile) * k_tile;
    const auto offsets = rest.offsets(static_cast<typename G::IndexType>(place.rest));
    const Bits* const in = from + offsets[1] + read + along + (write + across) * turn.read_step;
    Bits* const out = to + offsets[0] + write + along + (read + across) * turn.write_step;
    const auto writes = static_cast<int>(min(turn.write_extent - write, static_cast<std::int64_t>(k_tile)));
    const auto reads = static_cast<int>(min(turn.read_extent - read, static_cast<std::int64_t>(k_tile)));
    Vector loaded[k_passes];
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (across + pass * k_step < writes && along < reads)
        loaded[pass] = *reinterpret_cast<const Vector*>(in + pass * k_step * turn.read_step);
    }
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        tile[across + pass * k_step][along + k] = loaded[pass].at[k];
    }
    __syncthreads();
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (across + pass * k_step >= reads || along >= writes)
        continue;
      Vector column;
#pragma unroll
      for (int k = 0; k < V; ++k)
        column.at[k] = tile[along + k][across + pass * k_step];
      *reinterpret_cast<Vector*>(out + pass * k_step * turn.write_step) = column;
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

template <class Bits>
bool launch_transposed(cudaStream_t stream, const CopyPlan& plan, Bits* to, const Bits* from) {
  const int read_axis = read_axis_of(plan);
  if (read_axis < 0)
    return false;
  constexpr int V = sizeof(Bits) == 8 ? 2 : 4;
  const int write_axis = plan.ndim - 1;
  Turn turn{
      .read_extent = plan.extents[read_axis],
      .write_extent = plan.extents[write_axis],
      .read_step = plan.strides[1][write_axis],
      .write_step = plan.strides[0][read_axis]};
  const CopyPlan rest = rest_of(plan, read_axis);
  const std::int64_t read_tiles = (turn.read_extent + k_tile - 1) / k_tile;
  const std::int64_t write_tiles = (turn.write_extent + k_tile - 1) / k_tile;
  const std::int64_t blocks = read_tiles * write_tiles * rest.size;
  if (blocks > std::numeric_limits<std::int32_t>::max())
    return false;
  turn.read_tiles = static_cast<unsigned>(read_tiles);
  turn.write_tiles = static_cast<unsigned>(write_tiles);
  turn.blocks = static_cast<unsigned>(blocks);
  with_geometry(rest, [&](auto at) {
    if (in_vectors(plan, read_axis, V, to, from)) {
      copy_tiles<V><<<turn.blocks, k_block, 0, stream>>>(at, turn, to, from);
    } else {
      copy_tiles<1><<<turn.blocks, k_block, 0, stream>>>(at, turn, to, from);
    }
    check_launch("copy_tiles");
  });
  return true;
}

}  // namespace

bool copy_transposed(void* stream, const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto as = [&]<class Bits>(Bits) {
    return launch_transposed(on, plan, static_cast<Bits*>(to), static_cast<const Bits*>(from));
  };
  switch (element) {
    case 1:
      return as(std::uint8_t{});
    case 2:
      return as(std::uint16_t{});
    case 4:
      return as(std::uint32_t{});
    default:
      return as(std::uint64_t{});
  }
}

}  // namespace sluice::detail
