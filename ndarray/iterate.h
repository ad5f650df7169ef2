#pragma once

// Walking several strided operands in step, on the CPU. Device code uses the same StridedPlan through strided.cuh.
//
//   const auto plan = detail::plan_strided<2>(shape, {&out_strides, &in_strides});
//   detail::for_each_run(plan, 4096, [=](const detail::StridedRun<2>& run) {
//     for (std::int64_t i = 0; i < run.count; ++i)
//       out[run.offset[0] + i * run.step[0]] = f(in[run.offset[1] + i * run.step[1]]);
//   });
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/shape.h>

namespace sluice::detail {

/// May the walk visit elements in another order than row-major?
enum class AxisOrder : std::uint8_t {
  keep,  // row-major order of the shape: for kernels that use the linear index
  free,  // axes sorted by the strides of operand 0: for elementwise work
};

/// One shape and the strides (elements) of K operands over it, with axes of extent 1 dropped and adjacent axes merged
/// where every operand allows. At least one axis; size 0 only if an extent is 0.
template <int K>
struct StridedPlan {
  int ndim = 1;
  std::int64_t size = 1;
  std::array<std::int64_t, k_max_ndim> extents{1};
  std::array<std::array<std::int64_t, k_max_ndim>, K> strides{};

  std::int64_t inner() const noexcept { return extents[ndim - 1]; }
  std::int64_t inner_stride(int operand) const noexcept { return strides[operand][ndim - 1]; }
  /// Every operand is one run of neighbours.
  bool contiguous() const noexcept {
    if (ndim != 1)
      return false;
    if (size <= 1)
      return true;
    return std::all_of(strides.begin(), strides.end(), [](const auto& s) { return s[0] == 1; });
  }
  /// Largest distance, in elements, of any operand's elements from its first one.
  std::int64_t reach() const noexcept {
    std::int64_t most = 0;
    for (const auto& operand : strides) {
      std::int64_t distance = 0;
      for (int axis = 0; axis < ndim; ++axis)
        distance += (extents[axis] - 1) * (operand[axis] < 0 ? -operand[axis] : operand[axis]);
      most = std::max(most, distance);
    }
    return most;
  }
};

/// Sizes and offsets fit 32-bit arithmetic in device code, the last step of a grid-stride loop included.
template <int K>
bool fits_32_bits(const StridedPlan<K>& plan) noexcept {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() / 2;
  return plan.size <= limit && plan.reach() <= limit;
}

/// Collapses `shape`. Each stride set has shape.ndim() entries (broadcast_strides() makes them so).
template <int K>
StridedPlan<K> plan_strided(
    const Shape& shape, const std::array<const Shape*, K>& strides, AxisOrder order = AxisOrder::keep) {
  std::array<int, k_max_ndim> axes{};
  int used = 0;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (shape[axis] != 1)
      axes[used++] = axis;
  }
  if (order == AxisOrder::free) {
    const Shape& first = *strides[0];
    for (int i = 1; i < used; ++i) {  // stable, and there are few
      const int moved = axes[i];
      int at = i;
      for (; at > 0 && first[axes[at - 1]] < first[moved]; --at)
        axes[at] = axes[at - 1];
      axes[at] = moved;
    }
  }
  StridedPlan<K> plan;
  plan.ndim = 0;
  for (int i = 0; i < used; ++i) {
    const int axis = axes[i];
    plan.size *= shape[axis];
    const int last = plan.ndim - 1;
    bool merges = plan.ndim > 0;
    for (int k = 0; merges && k < K; ++k)
      merges = plan.strides[k][last] == (*strides[k])[axis] * shape[axis];
    const int to = merges ? last : plan.ndim++;
    plan.extents[to] = merges ? plan.extents[last] * shape[axis] : shape[axis];
    for (int k = 0; k < K; ++k)
      plan.strides[k][to] = (*strides[k])[axis];
  }
  if (plan.ndim == 0) {
    plan.ndim = 1;
    plan.extents[0] = 1;
  }
  return plan;
}

/// Neighbours along the innermost axis of a plan.
template <int K>
struct StridedRun {
  std::int64_t first = 0;  // linear index of the first element, in the plan's order
  std::int64_t count = 0;
  std::array<std::int64_t, K> offset{};  // elements from each operand's first element
  std::array<std::int64_t, K> step{};    // elements between neighbours
};

/// Calls body(run) for runs that cover elements [begin, end) of the plan, in order, on the calling thread.
template <int K, class Body>
void walk_runs(const StridedPlan<K>& plan, std::int64_t begin, std::int64_t end, Body&& body) {
  const int inner = plan.ndim - 1;
  std::array<std::int64_t, k_max_ndim> index{};
  StridedRun<K> run;
  for (int k = 0; k < K; ++k)
    run.step[k] = plan.strides[k][inner];
  std::int64_t rest = begin;
  for (int axis = inner; axis >= 0; --axis) {
    index[axis] = rest % plan.extents[axis];
    rest /= plan.extents[axis];
    for (int k = 0; k < K; ++k)
      run.offset[k] += index[axis] * plan.strides[k][axis];
  }
  for (run.first = begin; run.first < end; run.first += run.count) {
    run.count = std::min(plan.extents[inner] - index[inner], end - run.first);
    body(static_cast<const StridedRun<K>&>(run));
    // Carry: back to the start of the innermost axis, one step on the next outer one that has room.
    for (int k = 0; k < K; ++k)
      run.offset[k] -= index[inner] * plan.strides[k][inner];
    index[inner] = 0;
    for (int axis = inner - 1; axis >= 0; --axis) {
      for (int k = 0; k < K; ++k)
        run.offset[k] += plan.strides[k][axis];
      if (++index[axis] < plan.extents[axis])
        break;
      for (int k = 0; k < K; ++k)
        run.offset[k] -= plan.extents[axis] * plan.strides[k][axis];
      index[axis] = 0;
    }
  }
}

/// Calls body(run) for runs that cover the plan, in parallel; each thread takes at least `grain` elements. Runs come
/// in any order, so bodies write disjoint elements.
template <int K, class Body>
void for_each_run(const StridedPlan<K>& plan, std::int64_t grain, Body&& body) {
  parallel_for(plan.size, grain, [&](std::int64_t begin, std::int64_t end) { walk_runs(plan, begin, end, body); });
}

}  // namespace sluice::detail
