#include <array>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/layer_norm.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/normalise.h>

namespace sluice {
namespace detail {

const Operator layer_norm_op{
    .name = "layer_norm",
    .inputs = 3,
    .outputs = 3,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes>,
    .infer = row_norm_infer,
    .kernels = {on_cpu(row_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_gpu))},
    .gradient = row_norm_gradient,
    .saved_inputs = 0b011,
    .saved_outputs = 0b110,
};
const Operator layer_norm_backward_op{
    .name = "layer_norm_backward",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes, 1>,
    .infer = row_norm_backward_infer,
    .kernels = {on_cpu(row_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_backward_gpu))},
};
const Operator rms_norm_op{
    .name = "rms_norm",
    .inputs = 2,
    .outputs = 2,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes>,
    .infer = row_norm_infer,
    .kernels = {on_cpu(row_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_gpu))},
    .gradient = row_norm_gradient,
    .saved_inputs = 0b11,
    .saved_outputs = 0b10,
};
const Operator rms_norm_backward_op{
    .name = "rms_norm_backward",
    .inputs = 4,
    .outputs = 2,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes, 1>,
    .infer = row_norm_backward_infer,
    .kernels = {on_cpu(row_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(row_norm_backward_gpu))},
};

}  // namespace detail

NDArray layer_norm(
    const NDArray& x, const NDArray& gamma, const NDArray& beta, int axis, double eps, SourceLocation site) {
  const std::array<NDArray, 3> inputs{x, gamma, beta};
  return invoke(detail::layer_norm_op, inputs, Attributes::of(detail::LayerNormAttributes{axis, eps}), site)[0];
}

NDArray rms_norm(const NDArray& x, const NDArray& gamma, int axis, double eps, SourceLocation site) {
  const std::array<NDArray, 2> inputs{x, gamma};
  return invoke(detail::rms_norm_op, inputs, Attributes::of(detail::LayerNormAttributes{axis, eps}), site)[0];
}

}  // namespace sluice
