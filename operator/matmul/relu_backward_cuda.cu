#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/matmul/product.h>

namespace sluice::detail {
namespace {

template <class T>
__global__ void mask_kernel(std::int64_t n, const T* dy, const T* y, T* dx) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    dx[i] = static_cast<Compute<T>>(y[i]) <= Compute<T>(0) ? T(0.0f) : dy[i];  // NaN passes dy on
}

}  // namespace

void relu_backward_gpu(const KernelCall& call) {
  const std::int64_t n = call.outputs[0].size;
  if (n == 0)
    return;
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    mask_kernel<<<blocks_for(n, 4), k_block, 0, stream_of(call.queue)>>>(
        n, call.inputs[0].as<T>(), call.inputs[1].as<T>(), call.outputs[0].as<T>());
    check_launch("relu_backward");
  });
}

}  // namespace sluice::detail
