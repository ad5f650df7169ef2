// A shared object with an operator: y = 2 x, on a CPU and a GPU, with its gradient. Who loads it need not know more
// than its name.
#include <memory>

#include <sluice/operator/gpu_kernel.h>
#include <sluice/sluice.h>

namespace samples {
// In doubling_cuda.cu. What CUDA says of the launch, 0 for well.
int enqueue_doubling(void* stream, const float* x, float* y, std::int64_t n);
}  // namespace samples

namespace {

using namespace sluice;

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<DTypeError>(
      inputs[0].dtype == float32, [&] { return message(op.name, ": takes float32, not ", inputs[0].dtype); });
  return {inputs[0]};
}

void run_on_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  for (std::int64_t i = 0; i < x.size; ++i)
    y.as<float>()[i] = 2 * x.as<float>()[i];
}

#if SLUICE_CUDA
void run_on_gpu(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int status = samples::enqueue_doubling(call.queue.stream(), x.as<float>(), call.outputs[0].as<float>(), x.size);
  if (status != 0)
    throw CudaError(message(call.op.name, ": CUDA says ", status), status);
}
#endif

// Written with the operator itself, so that it has a gradient too.
Arrays gradient(const GradientCall& call) {
  return {invoke_one(call.op, {call.output_grads[0]}, {}, SourceLocation::current())};
}

[[maybe_unused]] const bool registered = [] {
  auto op = std::make_shared<Operator>();
  op->name = "sample_doubling";
  op->infer = infer;
  op->kernels = {on_cpu(run_on_cpu), on_gpu(SLUICE_GPU_KERNEL(run_on_gpu))};
  op->gradient = gradient;
  register_operator(op);
  return true;
}();

}  // namespace
