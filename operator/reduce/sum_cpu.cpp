#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

namespace {
template <class T>
void sum_over(const KernelCall& call, bool mean) {
  SumOf<T> op;
  if (mean)
    op.divisor = static_cast<Accumulator<T>>(mean_divisor(call));
  reduce_cpu<SumOf<T>, T>(call, op);
}
}  // namespace

void sum_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { sum_over<T>(call, false); });
}

void mean_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { sum_over<T>(call, true); });
}

}  // namespace sluice::detail
