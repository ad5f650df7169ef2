#include <vector>

#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

namespace {

Specs add_norm_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &a = inputs[0], &b = inputs[1];
  check_like(op.name, "what is added", b, a.shape, a.dtype == DType::float32 && is_half(b.dtype) ? b.dtype : a.dtype);
  std::vector<ArraySpec> norm(inputs.begin() + 1, inputs.end());
  norm[0] = a;
  Specs made = row_norm_infer(op, norm, attributes);
  made.push_back(a);
  return made;
}

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

bool is_in_registers(const ArraySpec& x, const Attributes& attributes, std::int64_t most) noexcept {
  const auto axis = static_cast<int>(attributes.as<LayerNormAttributes>().axis);
  const std::int64_t n = x.shape[axis];
  return x.dtype == DType::float32 && x.shape.size() != 0 && axis_layout(x.shape, axis).inner == 1 &&
         n % k_norm_vector == 0 && n <= most;
}

}  // namespace

bool adds_in_norm(const ArraySpec& x, const Attributes& attributes) noexcept {
  return is_in_registers(x, attributes, k_most_in_norm);
}
bool adds_in_norm_backward(const ArraySpec& x, const Attributes& attributes) noexcept {
  return is_in_registers(x, attributes, k_most_in_norm_backward);
}

const Operator add_layer_norm_op{
    .name = "add_layer_norm",
    .inputs = 4,
    .outputs = 4,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes>,
    .infer = add_norm_infer,
    .kernels = {on_cpu(add_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(add_norm_gpu))},
};
const Operator add_rms_norm_op{
    .name = "add_rms_norm",
    .inputs = 3,
    .outputs = 3,
    .attributes = &attribute_type<LayerNormAttributes>,
    .normalise = normalise_axis<LayerNormAttributes>,
    .infer = add_norm_infer,
    .kernels = {on_cpu(add_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(add_norm_gpu))},
};
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
