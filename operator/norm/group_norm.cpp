#include <array>
#include <string>

#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/layer_norm.h>
#include <sluice/operator/norm/layer_norm_kernels.h>

namespace sluice {
namespace detail {

const Operator group_norm_op{
    .name = "group_norm",
    .inputs = 3,
    .outputs = 3,
    .attributes = &attribute_type<GroupNormAttributes>,
    .infer = row_norm_infer,
    .kernels = {on_cpu(row_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(group_norm_gpu))},
    .gradient = row_norm_gradient,
    .saved_inputs = 0b011,
    .saved_outputs = 0b110,
};
const Operator group_norm_backward_op{
    .name = "group_norm_backward",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type<GroupNormAttributes>,
    .infer = row_norm_backward_infer,
    .kernels = {on_cpu(row_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(group_norm_backward_gpu))},
};
const Operator instance_norm_op{
    .name = "instance_norm",
    .inputs = 3,
    .outputs = 3,
    .attributes = &attribute_type<InstanceNormAttributes>,
    .infer = row_norm_infer,
    .kernels = {on_cpu(row_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(group_norm_gpu))},
    .gradient = row_norm_gradient,
    .saved_inputs = 0b011,
    .saved_outputs = 0b110,
};
const Operator instance_norm_backward_op{
    .name = "instance_norm_backward",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type<InstanceNormAttributes>,
    .infer = row_norm_backward_infer,
    .kernels = {on_cpu(row_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(group_norm_backward_gpu))},
};
const Operator l2_normalization_op{
    .name = "l2_normalization",
    .inputs = 1,
    .outputs = 2,
    .attributes = &attribute_type<L2NormalizationAttributes>,
    .infer = row_norm_infer,
    .kernels = {on_cpu(row_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_gpu))},
    .gradient = row_norm_gradient,
    .saved_inputs = 0b1,
    .saved_outputs = 0b10,
};
const Operator l2_normalization_backward_op{
    .name = "l2_normalization_backward",
    .inputs = 3,
    .outputs = 1,
    .attributes = &attribute_type<L2NormalizationAttributes>,
    .infer = row_norm_backward_infer,
    .kernels = {on_cpu(row_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_backward_gpu))},
};

}  // namespace detail

NDArray group_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    std::int64_t num_groups,
    double eps,
    SourceLocation site) {
  const std::array<NDArray, 3> inputs{x, gamma, beta};
  return invoke(detail::group_norm_op, inputs, Attributes::of(detail::GroupNormAttributes{num_groups, eps}), site)[0];
}

NDArray instance_norm(const NDArray& x, const NDArray& gamma, const NDArray& beta, double eps, SourceLocation site) {
  const std::array<NDArray, 3> inputs{x, gamma, beta};
  return invoke(detail::instance_norm_op, inputs, Attributes::of(detail::InstanceNormAttributes{eps}), site)[0];
}

NDArray l2_normalization(const NDArray& x, L2Mode mode, double eps, SourceLocation site) {
  const char* const name = mode == L2Mode::instance ? "instance" : mode == L2Mode::channel ? "channel" : "spatial";
  const Attributes attributes = Attributes::of(detail::L2NormalizationAttributes{eps, name});
  return invoke(detail::l2_normalization_op, {&x, 1}, attributes, site)[0];
}

}  // namespace sluice
