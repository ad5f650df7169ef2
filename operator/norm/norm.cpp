#include <array>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/norm/kernels.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/own_defaults.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {
namespace detail {
namespace {

constexpr std::array<const char*, 5> k_names{"x", "gamma", "beta", "running_mean", "running_var"};

// y, and the mean and 1 / std of each channel for backward.
Specs batch_norm_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& how = attributes.as<BatchNormAttributes>();
  const ArraySpec& x = inputs[0];
  require<ValueError>(how.eps > 0 && how.momentum >= 0 && how.momentum <= 1, [&] {
    return message(
        "batch_norm: needs eps > 0 and momentum in [0, 1], not eps = ", how.eps, ", momentum = ", how.momentum);
  });
  require<DTypeError>(
      is_floating(x.dtype), [&] { return message("batch_norm: no kernel for ", x.dtype, " on ", x.device); });
  require<IndexError>(how.axis >= 0 && how.axis < x.shape.ndim(), [&] {
    return message("batch_norm: axis ", how.axis, " is outside x of shape ", x.shape);
  });
  const std::int64_t channels = x.shape[static_cast<int>(how.axis)];
  const DType parameters = inputs[1].dtype;
  require<DTypeError>(parameters == x.dtype || parameters == wide_type(x.dtype), [&] {
    return message("batch_norm: gamma of ", parameters, " does not go with x of ", x.dtype);
  });
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    require<ShapeError>(inputs[i].shape == Shape{channels}, [&] {
      return message(
          "batch_norm: x of shape ",
          x.shape,
          " has ",
          channels,
          " channels on axis ",
          how.axis,
          "; ",
          k_names[i],
          " of shape ",
          inputs[i].shape,
          " is for others");
    });
    require<DTypeError>(inputs[i].dtype == parameters, [&] {
      return message("batch_norm: gamma is ", parameters, ", ", k_names[i], " is ", inputs[i].dtype);
    });
  }
  const ArraySpec statistics{{channels}, wide_type(x.dtype), x.device};
  return {x, statistics, statistics};
}

// And maybe what is added before the relu.
Specs batch_norm_relu_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs made = batch_norm_infer(op, inputs.first(5), attributes);
  if (inputs.size() == 6) {
    require<ShapeError>(inputs[5].shape == inputs[0].shape, [&] {
      return message("batch_norm_relu: adds ", inputs[5].shape, " to x of shape ", inputs[0].shape);
    });
    require<DTypeError>(inputs[5].dtype == inputs[0].dtype, [&] {
      return message("batch_norm_relu: adds ", inputs[5].dtype, " to x of ", inputs[0].dtype);
    });
  }
  return made;
}

// Inputs dy, x, gamma, mean, 1 / std; gradients of x, gamma, beta.
Specs batch_norm_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[1];
  const Shape channels{x.shape[detail::axis_of<BatchNormAttributes>(attributes)]};
  require<DTypeError>(is_floating(x.dtype) && is_floating(inputs[2].dtype), [&] {
    return message(op.name, ": takes floating types, not ", x.dtype, " with gamma of ", inputs[2].dtype);
  });
  detail::check_like(op.name, "gamma", inputs[2], channels, inputs[2].dtype);
  for (std::size_t i = 3; i < inputs.size(); ++i)
    detail::check_like(op.name, "what forward saved", inputs[i], channels, wide_type(x.dtype));
  detail::check_like(op.name, "the gradient", inputs[0], x.shape, x.dtype);
  return {inputs[1], inputs[2], inputs[2]};
}

// And beta.
Specs batch_norm_relu_backward_infer(
    const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_like(op.name, "beta", inputs[5], inputs[2].shape, inputs[2].dtype);
  return batch_norm_backward_infer(op, inputs.first(5), attributes);
}

// The result and maybe a second head; the gradient of what was added beside the others.
Specs batch_norm_add_relu_backward_infer(
    const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs made = batch_norm_backward_infer(op, inputs.first(5), attributes);
  const ArraySpec& x = inputs[1];
  detail::check_like(op.name, "the result", inputs[5], x.shape, x.dtype);
  if (inputs.size() == 7)
    detail::check_like(op.name, "the second gradient", inputs[6], x.shape, x.dtype);
  made.push_back(x);
  return made;
}

bool batch_norm_add_relu_backward_normalise(const RawCall& call, NormalCall& normal) {
  require<ValueError>(call.inputs.size() == 6 || call.inputs.size() == 7, [&] {
    return message("batch_norm_add_relu_backward: takes six inputs, or seven, not ", call.inputs.size());
  });
  return normalise_axis<BatchNormAttributes, 1>(call, normal);
}

bool batch_norm_relu_normalise(const RawCall& call, NormalCall& normal) {
  require<ValueError>(call.inputs.size() == 5 || call.inputs.size() == 6, [&] {
    return message("batch_norm_relu: takes five inputs, or six, not ", call.inputs.size());
  });
  return normalise_axis<BatchNormAttributes>(call, normal);
}

constexpr BatchNormAttributes of_running_statistics() {
  return {.batch_stats = false};
}

// With those of the batch it would write the running ones, which this operator does not say.
bool normalise_predict(const RawCall& call, NormalCall& normal) {
  require<ValueError>(!call.attributes.as<BatchNormAttributes>().batch_stats, [&] {
    return message(call.op.name, ": takes the running statistics; with those of the batch it is batch_norm");
  });
  return normalise_axis<BatchNormAttributes>(call, normal);
}

// Channels that are neighbours stay so.
template <std::size_t i>
MemoryOrder batch_norm_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  const bool of_channels = attributes.as<BatchNormAttributes>().axis == 1;
  return of_channels ? order_of(inputs[i].shape(), inputs[i].strides()) : MemoryOrder::row_major;
}

// The gradient in operators that can themselves be differentiated, for a backward that is recorded.
Arrays recorded_gradient(const GradientCall& call, const BatchNormAttributes& how) {
  const NDArray& x = call.inputs[0];
  const DType wide = wide_type(x.dtype());
  Shape others, along = Shape::filled(x.ndim(), 1);
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (axis != how.axis)
      others.push_back(axis);
  }
  const std::int64_t channels = x.shape()[static_cast<int>(how.axis)];
  along[static_cast<int>(how.axis)] = channels;
  const auto mean_of = [&](const NDArray& a) { return others.empty() ? a : mean(a, others, true); };
  const auto sum_of = [&](const NDArray& a) { return (others.empty() ? a : sum(a, others)).reshape({channels}); };

  const NDArray dy = call.output_grads[0].astype(wide);
  const NDArray wide_x = x.astype(wide);
  const NDArray gamma = call.inputs[1].astype(wide).reshape(along);
  NDArray centred, inv_std;
  if (how.batch_stats) {
    centred = wide_x - mean_of(wide_x);
    inv_std = rsqrt(mean_of(centred * centred) + how.eps);
  } else {
    centred = wide_x - call.outputs[1].detach().reshape(along);
    inv_std = call.outputs[2].detach().reshape(along);
  }
  const NDArray normal = centred * inv_std;
  NDArray dx = dy;
  if (how.batch_stats)
    dx = dy - mean_of(dy) - normal * mean_of(dy * normal);
  dx = dx * inv_std;
  const DType parameters = call.inputs[1].dtype();
  Arrays grads(5);
  grads[0] = (how.fix_gamma ? dx : dx * gamma).astype(x.dtype());
  grads[1] = how.fix_gamma ? zeros_like(call.inputs[1]) : sum_of(dy * normal).astype(parameters);
  grads[2] = sum_of(dy).astype(parameters);
  return grads;
}

Arrays gradient_at_once(const GradientCall& call) {
  const std::array<NDArray, 5> inputs{
      call.output_grads[0], call.inputs[0], call.inputs[1], call.outputs[1], call.outputs[2]};
  Arrays grads = invoke(batch_norm_backward_op, inputs, call.attributes, SourceLocation::current());
  grads.resize(5);
  return grads;
}

Arrays batch_norm_gradient(const GradientCall& call) {
  if (!call.output_grads[0].defined())
    return Arrays(5);
  if (autograd::is_recording())
    return recorded_gradient(call, call.attributes.as<BatchNormAttributes>());
  return gradient_at_once(call);
}

// The relu's, then batch norm's.
Arrays batch_norm_relu_gradient(const GradientCall& call) {
  Arrays grads;
  grads.resize(call.inputs.size());
  if (!call.output_grads[0].defined())
    return grads;
  const NDArray head = relu_gradient(call.output_grads[0], call.outputs[0], SourceLocation::current());
  Arrays heads(call.output_grads.begin(), call.output_grads.end());
  heads[0] = head;
  GradientCall before = call;
  before.inputs = call.inputs.first(5);
  before.output_grads = heads;
  Arrays of_norm = batch_norm_gradient(before);
  std::move(of_norm.begin(), of_norm.end(), grads.begin());
  if (grads.size() == 6)
    grads[5] = head;
  return grads;
}

}  // namespace

const Operator batch_norm_relu_op{
    .name = "batch_norm_relu",
    .inputs = -1,
    .outputs = 3,
    .attributes = &attribute_type<BatchNormAttributes>,
    .normalise = batch_norm_relu_normalise,
    .infer = batch_norm_relu_infer,
    .kernels = {on_cpu(batch_norm_relu_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_gpu))},
    .gradient = batch_norm_relu_gradient,
    .saved_inputs = 0b11,
    .saved_outputs = 0b111,
    .mutated_inputs = 0b11000,
    .order = batch_norm_order<0>,
};
const Operator batch_norm_relu_backward_op{
    .name = "batch_norm_relu_backward",
    .inputs = 6,
    .outputs = 3,
    .attributes = &attribute_type<BatchNormAttributes>,
    .normalise = normalise_axis<BatchNormAttributes, 1>,
    .infer = batch_norm_relu_backward_infer,
    .kernels = {on_cpu(batch_norm_relu_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_backward_gpu))},
    .order = batch_norm_order<1>,
};
const Operator batch_norm_add_relu_backward_op{
    .name = "batch_norm_add_relu_backward",
    .inputs = -1,
    .outputs = 4,
    .attributes = &attribute_type<BatchNormAttributes>,
    .normalise = batch_norm_add_relu_backward_normalise,
    .infer = batch_norm_add_relu_backward_infer,
    .kernels = {on_cpu(batch_norm_add_relu_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_backward_gpu))},
    .order = batch_norm_order<1>,
};
const Operator batch_norm_op{
    .name = "batch_norm",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type<BatchNormAttributes>,
    .normalise = normalise_axis<BatchNormAttributes>,
    .infer = batch_norm_infer,
    .kernels = {on_cpu(batch_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_gpu))},
    .gradient = batch_norm_gradient,
    .saved_inputs = 0b11,
    .saved_outputs = 0b110,
    .mutated_inputs = 0b11000,
    .order = batch_norm_order<0>,
};
const Operator batch_norm_predict_op{
    .name = "batch_norm_predict",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type_from<of_running_statistics>,
    .normalise = normalise_predict,
    .infer = batch_norm_infer,
    .kernels = {on_cpu(batch_norm_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_gpu))},
    .gradient = batch_norm_gradient,
    .saved_inputs = 0b11,
    .saved_outputs = 0b110,
    .order = batch_norm_order<0>,
};
const Operator batch_norm_backward_op{
    .name = "batch_norm_backward",
    .inputs = 5,
    .outputs = 3,
    .attributes = &attribute_type<BatchNormAttributes>,
    .normalise = normalise_axis<BatchNormAttributes, 1>,
    .infer = batch_norm_backward_infer,
    .kernels = {on_cpu(batch_norm_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(batch_norm_backward_gpu))},
    .order = batch_norm_order<1>,
};

OperatorList norm_operators() noexcept {
  static constexpr const Operator* list[] = {
      &batch_norm_op,
      &batch_norm_predict_op,
      &batch_norm_backward_op,
      &batch_norm_relu_op,
      &batch_norm_relu_backward_op,
      &batch_norm_add_relu_backward_op,
      &batch_norm_fold_op,
      &layer_norm_op,
      &layer_norm_backward_op,
      &rms_norm_op,
      &rms_norm_backward_op,
      &add_layer_norm_op,
      &add_rms_norm_op,
      &add_layer_norm_backward_op,
      &add_rms_norm_backward_op,
      &group_norm_op,
      &group_norm_backward_op,
      &instance_norm_op,
      &instance_norm_backward_op,
      &l2_normalization_op,
      &l2_normalization_backward_op,
      &local_response_norm_op};
  return list;
}

}  // namespace detail

NDArray batch_norm(
    const NDArray& x,
    const NDArray& gamma,
    const NDArray& beta,
    const NDArray& running_mean,
    const NDArray& running_var,
    const BatchNormOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool batch_stats = autograd::is_training() && !options.use_global_stats;
    const std::array<NDArray, 5> inputs{x, gamma, beta, running_mean, running_var};
    return invoke(
        batch_stats ? detail::batch_norm_op : detail::batch_norm_predict_op,
        inputs,
        Attributes::of(detail::BatchNormAttributes{
            .eps = options.eps,
            .momentum = options.momentum,
            .axis = options.axis,
            .fix_gamma = options.fix_gamma,
            .batch_stats = batch_stats}),
        site)[0];
  });
}

}  // namespace sluice
