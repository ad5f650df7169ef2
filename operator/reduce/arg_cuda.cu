#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

// Outside the unnamed namespace: join_group() finds it by its argument.
template <class Acc>
__device__ Candidate<Acc> shuffle_xor(const Candidate<Acc>& candidate, int lanes) {
  return {__shfl_xor_sync(0xffffffffu, candidate.value, lanes), __shfl_xor_sync(0xffffffffu, candidate.index, lanes)};
}

namespace {

/// Calls f.operator()<T>() with the type of the elements; bool is read as the byte that it is.
template <class F>
void by_reduced_type(DType dtype, F&& f) {
  by_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      f.template operator()<std::uint8_t>();
    } else {
      f.template operator()<T>();
    }
  });
}

template <class Acc>
struct Better {
  bool largest;
  __device__ Candidate<Acc> operator()(const Candidate<Acc>& a, const Candidate<Acc>& b) const {
    return largest ? better<true>(a, b) : better<false>(a, b);
  }
};

template <class T, class Index>
__global__ void __launch_bounds__(k_group_block) arg_kernel(
    const T* x,
    Geometry<2, Index> kept,
    std::int64_t step,
    std::int64_t terms,
    Better<Accumulator<T>> better,
    int width,
    std::int64_t* out) {
  using Acc = Accumulator<T>;
  const Group group(width);
  for (std::int64_t output = group.index; output < kept.size; output += group.count) {
    const T* from = x + kept.offsets(static_cast<Index>(output))[1];
    // Lanes beyond the terms start from the first one: it changes nothing.
    const std::int64_t first = group.lane < terms ? group.lane : 0;
    Candidate<Acc> best{to_accumulator(from[first * step]), first};
    for (std::int64_t i = first + width; i < terms; i += width)
      best = better(best, Candidate<Acc>{to_accumulator(from[i * step]), i});
    best = join_group(best, width, better);
    if (group.lane == 0)
      out[output] = best.index;
  }
}

// Rows of neighbours, V a load, four loads under way.
template <int V, bool Largest, class T>
__global__ void __launch_bounds__(k_group_block) arg_rows_kernel(
    const T* x, std::int64_t pitch, std::int64_t rows, std::int64_t terms, int width, std::int64_t* out) {
  using Acc = Accumulator<T>;
  using Vector = Neighbours<T, V>;
  const Group group(width);
  const std::int64_t vectors = terms / V;
  for (std::int64_t row = group.index; row < rows; row += group.count) {
    const T* const from = x + row * pitch;
    const auto* const packs = reinterpret_cast<const Vector*>(from);
    Candidate<Acc> best{to_accumulator(from[0]), 0};  // changes nothing where a lane finds no other
    const auto take = [&](const Vector& loaded, std::int64_t i) {
      // One comparison an element says whether any may win; a NaN on either side says so too.
      bool any = false;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const Acc value = to_accumulator(loaded.at[j]);
        any |= !(Largest ? value <= best.value : value >= best.value);
      }
      if (!any)
        return;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        // A thread's indices grow, so of equals the first stays.
        const Acc value = to_accumulator(loaded.at[j]);
        const bool wins = Largest ? value > best.value : value < best.value;
        if (wins || (is_nan(value) && !is_nan(best.value)))
          best = {value, i * V + j};
      }
    };
    std::int64_t i = group.lane;
    for (; i + 3 * width < vectors; i += 4 * width) {
      const Vector loaded[4] = {packs[i], packs[i + width], packs[i + 2 * width], packs[i + 3 * width]};
#pragma unroll
      for (int u = 0; u < 4; ++u)
        take(loaded[u], i + u * width);
    }
    for (; i < vectors; i += width)
      take(packs[i], i);
    best = join_group(best, width, Better<Acc>{Largest});
    if (group.lane == 0)
      out[row] = best.index;
  }
}

template <class T>
bool arg_over_rows(const KernelCall& call, const ReducePlan& plan, bool largest) {
  constexpr int V = k_neighbours<T>;
  const T* const x = call.inputs[0].as<const T>();
  const std::int64_t pitch = plan.kept.inner_stride(1);
  if (plan.terms() == 0 || plan.kept.ndim != 1 || plan.reduced.ndim != 1 || plan.reduced.inner_stride(0) != 1 ||
      plan.terms() % V != 0 || pitch % V != 0 || reinterpret_cast<std::uintptr_t>(x) % 16 != 0)
    return false;
  const int width = row_width(plan.outputs(), plan.terms());
  const unsigned blocks = blocks_for_groups(plan.outputs(), width);
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  const auto launch = [&]<bool Largest>() {
    arg_rows_kernel<V, Largest><<<blocks, k_group_block, 0, stream>>>(
        x, pitch, plan.outputs(), plan.terms(), width, call.outputs[0].as<std::int64_t>());
  };
  largest ? launch.template operator()<true>() : launch.template operator()<false>();
  return true;
}

template <class T>
void arg_over(const KernelCall& call, bool largest) {
  const ReducePlan plan = plan_reduce(call.inputs[0], call.attributes.as<ReduceAttributes>().axes);
  if (plan.outputs() == 0)
    return;
  if (arg_over_rows<T>(call, plan, largest))
    return cuda::cuda_check(cudaGetLastError(), "argmax");
  const std::int64_t step = plan.reduced.inner_stride(0);
  // Threads side by side read side by side: along the outputs, or along the terms.
  const int width = plan.columns() ? 1 : group_width(plan.terms());
  const auto stream = static_cast<cudaStream_t>(call.queue.stream());
  with_geometry(plan.kept, [&](auto kept) {
    arg_kernel<<<blocks_for_groups(plan.outputs(), width), k_group_block, 0, stream>>>(
        call.inputs[0].as<const T>(),
        kept,
        step,
        plan.terms(),
        Better<Accumulator<T>>{largest},
        width,
        call.outputs[0].as<std::int64_t>());
  });
  cuda::cuda_check(cudaGetLastError(), "argmax");
}

}  // namespace

void argmax_gpu(const KernelCall& call) {
  by_reduced_type(call.inputs[0].dtype, [&]<class T>() { arg_over<T>(call, true); });
}

void argmin_gpu(const KernelCall& call) {
  by_reduced_type(call.inputs[0].dtype, [&]<class T>() { arg_over<T>(call, false); });
}

}  // namespace sluice::detail
