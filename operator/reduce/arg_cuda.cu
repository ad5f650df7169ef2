#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

// Outside the unnamed namespace: join_group() finds it by its argument.
template <class Acc>
__device__ Candidate<Acc> shuffle_xor(const Candidate<Acc>& candidate, int lanes) {
  return {__shfl_xor_sync(0xffffffffu, candidate.value, lanes), __shfl_xor_sync(0xffffffffu, candidate.index, lanes)};
}

namespace {

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

template <class T>
void arg_over(const KernelCall& call, bool largest) {
  const ReducePlan plan = plan_reduce(call.inputs[0], call.attributes.as<ReduceAttributes>().axes);
  if (plan.outputs() == 0)
    return;
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
