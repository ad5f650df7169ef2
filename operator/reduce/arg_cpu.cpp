#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/reduce/kernels.h>
#include <sluice/operator/reduce/states.h>

namespace sluice::detail {

namespace {

/// Index of the best of n elements; a NaN is better than any number, the first of equals wins.
template <bool Largest, class T>
std::int64_t best_index(const T* x, std::int64_t n, std::int64_t step) noexcept {
  Candidate<Accumulator<T>> best{to_accumulator(x[0]), 0};
  for (std::int64_t i = 1; i < n && !is_nan(best.value); ++i) {
    const auto value = to_accumulator(x[i * step]);
    if ((Largest ? value > best.value : value < best.value) || is_nan(value))
      best = {value, i};
  }
  return best.index;
}

template <bool Largest, class T>
void arg_rows(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const ReducePlan plan = plan_reduce(x, call.attributes.as<ReduceAttributes>().axes);
  if (plan.outputs() == 0)
    return;
  auto* out = call.outputs[0].as<std::int64_t>();
  const std::int64_t step = plan.reduced.inner_stride(0), n = plan.terms();
  for_each_run(plan.kept, std::max<std::int64_t>(1, 16384 / n), [&](const StridedRun<2>& run) {
    const T* row = x.as<const T>() + run.offset[1];
    for (std::int64_t i = 0; i < run.count; ++i)
      out[run.first + i] = best_index<Largest>(row + i * run.step[1], n, step);
  });
}

}  // namespace

void argmax_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { arg_rows<true, T>(call); });
}

void argmin_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { arg_rows<false, T>(call); });
}

}  // namespace sluice::detail
