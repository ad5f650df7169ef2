#include <sluice/operator/reduce/reduce_cuda.cuh>

namespace sluice::detail {

void prod_gpu(const KernelCall& call) {
  by_reduced_type(
      call.inputs[0].dtype, [&]<class T>() { ReduceLaunch<ProductOf<T>, T>(call, {}).template run<false>(); });
}

}  // namespace sluice::detail
