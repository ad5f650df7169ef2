#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/norm/norm.h>

namespace sluice::detail {
namespace {

Specs fold_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<ValueError>(inputs.size() == 4 || inputs.size() == 5, [&] {
    return message(op.name, ": takes gamma, beta, mean, variance and maybe a bias, was given ", inputs.size());
  });
  const ArraySpec& gamma = inputs[0];
  require<ShapeError>(
      gamma.shape.ndim() == 1, [&] { return message(op.name, ": gamma must be (channels,), not ", gamma.shape); });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require<ShapeError>(inputs[i].shape == gamma.shape, [&] {
      return message(op.name, ": input ", i, " of shape ", inputs[i].shape, " beside gamma of ", gamma.shape);
    });
    require<DTypeError>(is_floating(inputs[i].dtype) && (i == 4 || inputs[i].dtype == gamma.dtype), [&] {
      return message(op.name, ": input ", i, " is ", inputs[i].dtype, ", gamma ", gamma.dtype);
    });
  }
  const DType made = wide_type(gamma.dtype);
  return {{gamma.shape, made, gamma.device}, {gamma.shape, made, gamma.device}};
}

template <class Acc>
void fold(const KernelCall& call) {
  const BatchNormFold<Acc> channels(call);
  for (std::int64_t c = 0; c < call.inputs[0].size; ++c)
    channels.finish(c);
}

}  // namespace

void batch_norm_fold_cpu(const KernelCall& call) {
  call.outputs[0].dtype == DType::float64 ? fold<double>(call) : fold<float>(call);
}

const Operator batch_norm_fold_op{
    .name = "batch_norm_fold",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<BatchNormFoldAttributes>,
    .infer = fold_infer,
    .kernels = {on_cpu(batch_norm_fold_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_fold_gpu))},
};

}  // namespace sluice::detail
