#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/norm/kernels.h>

namespace sluice::detail {
namespace {

template <class Acc>
__global__ void __launch_bounds__(k_block) fold_kernel(BatchNormFold<Acc> channels, std::int64_t n) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < n)
    channels.finish(c);
}

template <class Acc>
void fold(const KernelCall& call) {
  const std::int64_t n = call.inputs[0].size;
  const auto blocks = static_cast<unsigned>((n + k_block - 1) / k_block);
  if (n > 0) {
    fold_kernel<Acc><<<blocks, k_block, 0, stream_of(call.queue)>>>(BatchNormFold<Acc>(call), n);
    check_launch("batch_norm_fold");
  }
}

}  // namespace

void batch_norm_fold_gpu(const KernelCall& call) {
  call.outputs[0].dtype == DType::float64 ? fold<double>(call) : fold<float>(call);
}

}  // namespace sluice::detail
