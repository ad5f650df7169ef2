#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

void max_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { reduce_cpu<ExtremeOf<T, true>, T>(call, {}); });
}

void min_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { reduce_cpu<ExtremeOf<T, false>, T>(call, {}); });
}

}  // namespace sluice::detail
