#include <sluice/operator/reduce/reduce_cpu.h>

namespace sluice::detail {

void prod_cpu(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() { reduce_cpu<ProductOf<T>, T>(call, {}); });
}

}  // namespace sluice::detail
