#pragma once

// Which launches an elementwise run on a GPU becomes: kernels count in 32 bits, so what is larger goes in pieces. Host
// code, without a CUDA header, so that it is tested without a GPU.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <sluice/operator/elementwise/pointwise.h>

namespace sluice::detail {

/// Below this a run whose length is no multiple of a vector goes element by element in place of two launches.
inline constexpr std::int64_t k_worth_two_launches = 1 << 16;

/// Where a run is cut in two: before `head` of `axis`; 0: not at all.
struct Cut {
  int axis = 0;
  std::int64_t head = 0;
};

/// The axis that makes the farthest operand reach so far: halving it is what shortens the reach most. A longer axis
/// of small strides would be cut to nothing and leave the reach as it was. The array that is written repeats no
/// element, so its reach is never below the size, and the size falls too.
template <int K>
int farthest_axis(const StridedPlan<K>& plan) noexcept {
  std::int64_t most = -1;
  int found = 0;
  for (const auto& strides : plan.strides) {
    std::int64_t reach = 0, part = -1;
    int axis_of_part = 0;
    for (int axis = 0; axis < plan.ndim; ++axis) {
      const std::int64_t distance = (plan.extents[axis] - 1) * (strides[axis] < 0 ? -strides[axis] : strides[axis]);
      reach += distance;
      if (distance > part) {
        part = distance;
        axis_of_part = axis;
      }
    }
    if (reach > most) {
      most = reach;
      found = axis_of_part;
    }
  }
  return found;
}

/// What is too large is halved; of neighbours a whole number of vectors of `pack` elements goes first.
template <int K>
Cut cut_of(const StridedPlan<K>& plan, int pack) noexcept {
  const int inner = plan.ndim - 1;
  if (!fits_32_bits(plan)) {
    const int axis = farthest_axis(plan);
    const std::int64_t half = plan.extents[axis] / 2;
    return {axis, axis == inner && half > pack ? half / pack * pack : half};
  }
  if (plan.ndim == 1 && plan.size > k_worth_two_launches && plan.size % pack != 0)
    return {0, plan.size - plan.size % pack};
  return {};
}

/// Vectors of `pack` elements in a run whose operands are all neighbours that begin at a vector, or numbers: what
/// nearly all calls are, told with few instructions. 0: it is something else.
template <int K>
std::int64_t flat_vectors(const PointwiseArgs<K>& args, int pack) noexcept {
  const StridedPlan<K>& plan = args.plan;
  if (plan.ndim != 1 || plan.size % pack != 0 || plan.size > std::numeric_limits<std::int32_t>::max() / 2)
    return 0;
  for (int k = 0; k < K; ++k) {
    if (args.is_constant[k])
      continue;
    const std::size_t bytes = size_of(args.dtypes[k]) * static_cast<std::size_t>(pack);
    if (plan.strides[k][0] != 1 || reinterpret_cast<std::uintptr_t>(args.data[k]) % bytes != 0)
      return 0;
  }
  return plan.size / pack;
}

/// The plan of so many vectors of such operands.
template <int K>
StridedPlan<K> plan_of_flat(const PointwiseArgs<K>& args, std::int64_t vectors, int pack) noexcept {
  StridedPlan<K> packed;
  packed.size = packed.extents[0] = vectors;
  for (int k = 0; k < K; ++k)
    packed.strides[k][0] = args.is_constant[k] ? 0 : pack;
  return packed;
}

/// How an operand's elements follow along a result that is one run of neighbours: `count` of them, `stride` apart, each
/// `repeats` times, then from the first again. A count of 0: they lie as the result's.
struct Cycle {
  std::int64_t repeats = 1, count = 0, stride = 1;
};

/// Of operand k; nothing where its elements follow otherwise, or a vector of `pack` elements could hold more than one
/// end of a repetition or of a cycle.
template <int K>
std::optional<Cycle> cycle_of(const StridedPlan<K>& plan, int k, int pack) noexcept {
  Cycle cycle;
  std::int64_t run = 1;  // elements of the result in all axes further in
  for (int axis = plan.ndim - 1; axis >= 0; run *= plan.extents[axis--]) {
    const std::int64_t stride = plan.strides[k][axis], extent = plan.extents[axis];
    if (stride == 0 || extent == 1)
      continue;
    if (cycle.count == 0)
      cycle = {run, extent, stride};
    else if (run == cycle.repeats * cycle.count && stride == cycle.stride * cycle.count)
      cycle.count *= extent;  // the axes are one
    else
      return {};
  }
  if (cycle.repeats == 1 && cycle.stride == 1 && cycle.count == plan.size)
    return Cycle{};
  const std::int64_t least = cycle.repeats == 1 ? cycle.count : cycle.repeats;
  return cycle.count != 0 && least >= pack ? std::optional(cycle) : std::nullopt;
}

/// The operands' cycles, where the result is one run of neighbours, it and what lies as it does begin at a vector, and
/// it is worth two launches: vectors, and what is left behind the last one. Rows and columns of odd lengths are so.
template <int K>
std::optional<std::array<Cycle, K>> cycles_of(const PointwiseArgs<K>& args, int pack) noexcept {
  const StridedPlan<K>& plan = args.plan;
  std::array<Cycle, K> cycles{};
  if (plan.ndim < 2 || plan.inner() < pack || plan.size < k_worth_two_launches ||
      plan.size > std::numeric_limits<std::int32_t>::max() / 2)
    return {};
  for (int k = 0; k < K; ++k) {
    if (args.is_constant[k])
      continue;
    const auto cycle = cycle_of(plan, k, pack);
    if (!cycle || (k == 0 && cycle->count != 0))
      return {};
    const std::size_t bytes = size_of(args.dtypes[k]) * static_cast<std::size_t>(pack);
    if (cycle->count == 0 && reinterpret_cast<std::uintptr_t>(args.data[k]) % bytes != 0)
      return {};
    const std::int64_t last = (cycle->count - 1) * cycle->stride, most = std::numeric_limits<std::int32_t>::max();
    if (cycle->count != 0 && (last > most || last < -most))
      return {};
    cycles[k] = *cycle;
  }
  return cycles;
}

/// `count` of `axis`, from `begin` on.
template <int K>
PointwiseArgs<K> piece_of(PointwiseArgs<K> args, int axis, std::int64_t begin, std::int64_t count) noexcept {
  args.plan.size = args.plan.size / args.plan.extents[axis] * count;
  args.plan.extents[axis] = count;
  for (int k = 0; k < K; ++k) {
    if (!args.is_constant[k])
      args.data[k] += begin * args.plan.strides[k][axis] * static_cast<std::int64_t>(size_of(args.dtypes[k]));
  }
  return args;
}

/// The last `count` elements, of one innermost run.
template <int K>
PointwiseArgs<K> tail_of(PointwiseArgs<K> args, std::int64_t count) noexcept {
  const int inner = args.plan.ndim - 1;
  for (int axis = 0; axis < inner; ++axis)
    args = piece_of(args, axis, args.plan.extents[axis] - 1, 1);
  return piece_of(args, inner, args.plan.extents[inner] - count, count);
}

/// Calls launch(piece, stream) for pieces that fit 32 bits and together cover `args`; for none if it is empty.
template <int K, class Launch>
void launch_in_pieces(const PointwiseArgs<K>& args, int pack, const Launch& launch, void* stream) {
  if (args.plan.size == 0)
    return;
  const Cut cut = cut_of(args.plan, pack);
  if (cut.head == 0) {
    launch(args, stream);
    return;
  }
  launch_in_pieces<K>(piece_of(args, cut.axis, 0, cut.head), pack, launch, stream);
  launch_in_pieces<K>(piece_of(args, cut.axis, cut.head, args.plan.extents[cut.axis] - cut.head), pack, launch, stream);
}

}  // namespace sluice::detail
