#include <sluice/engine/error.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/loss_scale.h>

namespace sluice::detail {

namespace {

void loss_scale_cpu(const KernelCall& call) {
  const LossScaleStep step(call.attributes.as<LossScaleRules>());
  step.follow(
      call.inputs[2].as<const double>()[2] != 0, *call.inputs[0].as<float>(), *call.inputs[1].as<std::int64_t>());
}

void check_one(const Operator& op, const char* what, const ArraySpec& spec, DType dtype) {
  require<DTypeError>(
      spec.dtype == dtype, [&] { return message(op.name, ": ", what, " is ", spec.dtype, ", not ", dtype); });
  require<ShapeError>(spec.shape.size() == 1, [&] {
    return message(op.name, ": ", what, " of shape ", spec.shape, " is not one number");
  });
}

Specs infer_loss_scale(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_one(op, "the scale", inputs[0], float32);
  check_one(op, "the number of clean steps", inputs[1], int64);
  require<DTypeError>(
      inputs[2].dtype == float64, [&] { return message(op.name, ": a guard is float64, not ", inputs[2].dtype); });
  require<ShapeError>(inputs[2].shape == Shape{3}, [&] {
    return message(op.name, ": a guard of shape ", inputs[2].shape, ", not ", Shape{3});
  });
  const std::int64_t interval = attributes.as<LossScaleRules>().growth_interval;
  require<ValueError>(interval >= 1, [&] { return message(op.name, ": growth_interval is ", interval, ", below 1"); });
  return {};
}

}  // namespace

constinit const Operator k_loss_scale_update = {
    .name = "loss_scale_update",
    .inputs = 3,
    .outputs = 0,
    .attributes = &attribute_type<LossScaleRules>,
    .infer = infer_loss_scale,
    .kernels = {on_cpu(loss_scale_cpu), on_gpu(SLUICE_GPU_KERNEL(loss_scale_gpu))},
    .mutated_inputs = 0b11,
};

void loss_scale_update(
    const NDArray& scale,
    const NDArray& clean,
    const NDArray& guard,
    const LossScaleRules& rules,
    SourceLocation site) {
  located(site, [&] {
    const NDArray inputs[] = {scale, clean, guard};
    invoke(k_loss_scale_update, inputs, Attributes::of(rules), site);
  });
}

}  // namespace sluice::detail
