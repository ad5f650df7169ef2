#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

namespace {

Specs add_norm_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &x = inputs[1], &other = inputs.back();
  Specs made = row_norm_backward_infer(op, inputs.first(inputs.size() - 1), attributes);
  check_like(op.name, "the other gradient", other, x.shape, x.dtype);
  if (const auto& half = attributes.as<LayerNormAttributes>().result) {
    require<DTypeError>(*half != x.dtype && norm_gives(x.dtype, *half, attributes), [&] {
      return message(op.name, ": a sum of ", x.dtype, " is not rounded to ", *half, " beside");
    });
    made.push_back({x.shape, *half, x.device});
  }
  return made;
}

}  // namespace

bool adds_in_norm_backward(const ArraySpec& x, const Attributes& attributes) noexcept {
  const auto axis = static_cast<int>(attributes.as<LayerNormAttributes>().axis);
  const std::int64_t n = x.shape[axis];
  return x.dtype == DType::float32 && x.shape.size() != 0 && axis_layout(x.shape, axis).inner == 1 &&
         n % k_norm_vector == 0 && n <= k_most_in_norm_backward;
}

const Operator add_layer_norm_backward_op{
    .name = "add_layer_norm_backward",
    .inputs = 6,
    .outputs = -1,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes, 1>,
    .infer = add_norm_backward_infer,
    .kernels = {on_cpu(add_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(add_norm_backward_gpu))},
};
const Operator add_rms_norm_backward_op{
    .name = "add_rms_norm_backward",
    .inputs = 5,
    .outputs = -1,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes, 1>,
    .infer = add_norm_backward_infer,
    .kernels = {on_cpu(add_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(add_norm_backward_gpu))},
};

}  // namespace sluice::detail
