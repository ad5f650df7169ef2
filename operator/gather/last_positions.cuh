#pragma once

#include <cstdint>
#include <limits>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/gather/resolve_cuda.cuh>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

// Of several positions that name one entry the last one counts, whichever thread comes first.
namespace sluice::detail {

// For every entry the last position that names it, so that of several one wins whoever comes last.
template <class Position>
__global__ void __launch_bounds__(k_group_block)
    last_position_kernel(const __grid_constant__ ResolvedIndices indices, std::int64_t count, Position* last) {
  start_early();
  constexpr int k_found = 4;
  const Group group(1);
  for (std::int64_t first = group.index; first < count; first += k_found * group.count) {
    std::int64_t entries[k_found];
    indices.find(first, group.count, count, entries);
#pragma unroll
    for (int k = 0; k < k_found; ++k) {
      if (entries[k] >= 0)
        atomicMax(last + entries[k], static_cast<Position>(first + k * group.count));
    }
  }
}

// Those positions, as narrow as their number allows; null: every position counts.
struct LastOf {
  const int* narrow = nullptr;
  const long long* wide = nullptr;

  /// Of an entry, where there are positions.
  __device__ std::int64_t of(std::int64_t entry) const { return narrow != nullptr ? narrow[entry] : wide[entry]; }
  __device__ bool is(std::int64_t entry, std::int64_t position) const {
    return narrow != nullptr ? narrow[entry] == position : wide == nullptr || wide[entry] == position;
  }
};

/// The last position of each entry, -1 where there is none.
class LastPositions {
 public:
  LastPositions(const KernelCall& call, const Taking& taking)
      : is_narrow_(taking.place.count <= std::numeric_limits<int>::max()),
        scratch_(call.queue, static_cast<std::size_t>(taking.at.n) * (is_narrow_ ? sizeof(int) : sizeof(long long))) {
    cuda::cuda_check(
        cudaMemsetAsync(scratch_.data(), 0xff, scratch_.bytes(), stream_of(call.queue)), "cudaMemsetAsync");
    is_narrow_ ? find(call, taking, scratch_.as<int>()) : find(call, taking, scratch_.as<long long>());
  }
  LastOf at() const noexcept {
    return is_narrow_ ? LastOf{scratch_.as<int>(), nullptr} : LastOf{nullptr, scratch_.as<long long>()};
  }

 private:
  template <class Position>
  static void find(const KernelCall& call, const Taking& taking, Position* last) {
    last_position_kernel<<<
        blocks_for_groups((taking.place.count + 3) / 4, 1),
        k_group_block,
        0,
        stream_of(call.queue)>>>(ResolvedIndices(call, taking.place), taking.place.count, last);
    check_early_launch(call.op.name, stream_of(call.queue));
  }

  const bool is_narrow_;
  Workspace scratch_;
};

}  // namespace sluice::detail
