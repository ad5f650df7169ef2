#pragma once

// Elementwise runs over operands of any strides: the outermost axis is cut in as many parts as a thread takes elements,
// whose loads are all under way before one is needed. It finds its place by one division an axis for all of them, and
// threads side by side are neighbours in memory however odd the rows and their addresses are.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/operator/elementwise/operand.cuh>

namespace sluice::detail {

/// Elements a thread takes at once: more where they are small, or too few bytes would be under way.
template <class... T>
inline constexpr int k_at_once = ((sizeof(T) <= 2) && ...) ? 8 : 4;

/// How threads walk a plan of K operands, of which operand 0 is written.
template <int K>
struct Streams {
  Geometry<K, std::int32_t> at;  // of a thread's first element
  std::int32_t next[K];          // from an element of a thread to its next one
  std::int32_t total, count;     // elements; of a thread, at.size of them apart

  Streams(StridedPlan<K> plan, int at_once) : Streams(plan, plan.size, (plan.extents[0] + at_once - 1) / at_once) {}

 private:
  Streams(StridedPlan<K>& plan, std::int64_t size, std::int64_t part)
      : at(shortened(plan, part)),
        total(static_cast<std::int32_t>(size)),
        count(static_cast<std::int32_t>((size / (plan.size / part) + part - 1) / part)) {
    for (int k = 0; k < K; ++k)
      next[k] = static_cast<std::int32_t>(part * plan.strides[k][0]);
  }
  static const StridedPlan<K>& shortened(StridedPlan<K>& plan, std::int64_t part) {
    plan.size = plan.size / plan.extents[0] * part;
    plan.extents[0] = part;
    return plan;
  }
};

/// A thread's elements of an operand, `count` of them.
template <int U, class T>
__device__ Several<T, U> read_stream(
    const ReadOperand<T>& operand, std::int32_t offset, std::int32_t next, std::int32_t count) {
  Several<T, U> raw = {};
  if (operand.mode == ReadMode::constant)
    return raw;
#pragma unroll
  for (int j = 0; j < U; ++j) {
    if (j < count)
      raw.at[j] = operand.data[offset + j * next];
  }
  return raw;
}

template <class F, int U, class Out, class W, std::size_t... I, class... In>
__device__ void apply_to_streams(
    const W& walk, std::int32_t i, Out* out, std::index_sequence<I...>, const ReadOperand<In>&... in) {
  const auto offsets = walk.at.offsets(i);
  const std::int32_t count = i + (walk.count - 1) * walk.at.size < walk.total ? walk.count : walk.count - 1;
  const auto write = [&](const auto&... raw) {
    const auto made = applied<F, Out>(computed(in, raw)...);
#pragma unroll
    for (int j = 0; j < U; ++j) {
      if (j < count)
        out[offsets[0] + j * walk.next[0]] = made.at[j];
    }
  };
  write(read_stream<U>(in, offsets[static_cast<int>(I) + 1], walk.next[I + 1], count)...);
}

template <class F, int U, class Out, class... In>
__global__ void __launch_bounds__(k_block)
    pointwise_streams_kernel(Streams<1 + static_cast<int>(sizeof...(In))> walk, Out* out, ReadOperand<In>... in) {
  start_early();
  for (std::int32_t i = first_index(walk.at); i < walk.at.size; i += index_step(walk.at))
    apply_to_streams<F, U>(walk, i, out, std::index_sequence_for<In...>{}, in...);
}

}  // namespace sluice::detail
