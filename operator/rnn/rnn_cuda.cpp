#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/rnn/problem.h>

namespace sluice::detail {

void rnn_gpu(const KernelCall& call) {
  const RnnProblem p = rnn_problem(call.inputs[0], call.attributes.as<RnnAttributes>());
  if (p.batch > 0)
    rnn_by_library(call.queue, p, rnn_forward_data(call, p), false);
}

void rnn_backward_gpu(const KernelCall& call) {
  const RnnProblem p = rnn_problem(call.inputs[0], call.attributes.as<RnnAttributes>());
  if (p.batch > 0)
    return rnn_by_library(call.queue, p, rnn_backward_data(call, p), true);
  const TensorView& parameters = call.outputs[1];  // all others are empty
  cuda::cuda_check(
      cudaMemsetAsync(
          parameters.data,
          0,
          static_cast<std::size_t>(parameters.size) * size_of(parameters.dtype),
          stream_of(call.queue)),
      "cudaMemsetAsync");
}

}  // namespace sluice::detail
