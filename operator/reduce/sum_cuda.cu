#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

namespace {
void sum_over(const KernelCall& call, double divisor) {
  by_reduced_type(call.inputs[0].dtype, [&]<class T>() {
    SumOf<T> op;
    op.divisor = static_cast<Accumulator<T>>(divisor);
    ReduceLaunch<SumOf<T>, T>(call, op).template run<true>();
  });
}
}  // namespace

void sum_gpu(const KernelCall& call) {
  sum_over(call, 1);
}

void mean_gpu(const KernelCall& call) {
  sum_over(call, mean_divisor(call));
}

}  // namespace sluice::detail
