#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/softmax/composed.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice {

void detail::check_labels(const char* op, const ArraySpec& x, const ArraySpec& labels, int axis) {
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op, ": takes floating types, not ", x.dtype); });
  require<DTypeError>(is_integer(labels.dtype), [&] {
    return message(
        op,
        ": labels are class indices of an integer type, not ",
        labels.dtype,
        "; labels.astype(int32) makes them so (for probabilities the loss takes sparse_label = false)");
  });
  const Shape wanted = without_axis(x.shape, axis);
  require<ShapeError>(labels.shape == wanted, [&] {
    return message(
        op,
        ": predictions of shape ",
        x.shape,
        ", classes on axis ",
        axis,
        ", need labels of shape ",
        wanted,
        ", not ",
        labels.shape);
  });
}

void detail::CrossEntropyAttributes::ignore(const std::optional<std::int64_t>& label) noexcept {
  ignores = label.has_value();
  ignored_label = label.value_or(0);
}

DType detail::loss_type(DType logits, bool wide) noexcept {
  return is_half(logits) && wide ? DType::float32 : logits;
}

NDArray detail::rows_of_label(const NDArray& labels, std::int64_t label, SourceLocation site) {
  return equal(labels.astype(int64, site), label, site);
}

namespace {

using detail::axis_of;
using detail::check_labels;
using detail::CrossEntropyAttributes;
using detail::LikelihoodAttributes;

Attributes widened(const Attributes& attributes) {
  CrossEntropyAttributes wide = attributes.as<CrossEntropyAttributes>();
  wide.wide = true;
  return Attributes::of(wide);
}

Specs infer_cross_entropy(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = axis_of<CrossEntropyAttributes>(attributes);
  check_labels(op.name, inputs[0], inputs[1], axis);
  ArraySpec loss = inputs[0];
  loss.shape = detail::without_axis(loss.shape, axis);
  loss.dtype = detail::loss_type(loss.dtype, attributes.as<CrossEntropyAttributes>().wide);
  // Of each row the largest logit, then the log of the sum of exponentials relative to it: their sum would round.
  ArraySpec log_sum = loss;
  log_sum.shape = {2, loss.shape.size()};
  log_sum.dtype = detail::wide_type(loss.dtype);
  return {loss, log_sum};
}

// A gradient of the losses, one a label.
void check_losses(const char* op, const ArraySpec& dy, const ArraySpec& labels, DType losses) {
  require<ShapeError>(dy.shape == labels.shape, [&] {
    return message(op, ": a gradient of shape ", dy.shape, " of losses of shape ", labels.shape);
  });
  require<DTypeError>(
      dy.dtype == losses, [&] { return message(op, ": a gradient of ", dy.dtype, " of losses of ", losses); });
}

// logits, labels, what forward saved of each row, dy.
Specs infer_cross_entropy_backward(
    const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Specs forward = infer_cross_entropy(op, inputs, attributes);
  detail::check_like(op.name, "what forward saved", inputs[2], forward[1].shape, forward[1].dtype);
  check_losses(op.name, inputs[3], inputs[1], forward[0].dtype);
  return {inputs[0]};
}

// logits, labels, dy: what forward gives, and the gradient of the logits.
Specs infer_both(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  Specs specs = infer_cross_entropy(op, inputs.first(2), attributes);
  check_losses(op.name, inputs[2], inputs[1], specs[0].dtype);
  specs.push_back(inputs[0]);
  return specs;
}

Specs infer_likelihood(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_labels(op.name, inputs[0], inputs[1], axis_of<LikelihoodAttributes>(attributes));
  ArraySpec loss = inputs[0];
  loss.shape = detail::without_axis(loss.shape, axis_of<LikelihoodAttributes>(attributes));
  return {loss};
}

// labels, dy, log_probs: dy's type, with the class axis back.
Specs infer_likelihood_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_labels(op.name, inputs[2], inputs[0], axis_of<LikelihoodAttributes>(attributes));
  check_losses(op.name, inputs[1], inputs[0], inputs[2].dtype);
  return {inputs[2]};
}

Arrays cross_entropy_gradient(const GradientCall& call) {
  Arrays grads(2);
  if (call.output_grads[0].defined()) {
    grads[0] = invoke_one(
        k_softmax_cross_entropy_backward,
        {call.inputs[0], call.inputs[1], call.outputs[1].detach(), call.output_grads[0]},
        call.attributes,
        {});
  }
  return grads;
}

// Of (softmax(logits) - onehot(labels)) * dy, with respect to logits and dy, where labels count. The saved log of the
// sum is a function of the logits; what depends on the logits through it is in the first of the two.
Arrays cross_entropy_backward_gradient(const GradientCall& call) {
  const NDArray &labels = call.inputs[1], &dy = call.inputs[3];
  const DType computed = dy.dtype();
  const NDArray logits = call.inputs[0].astype(computed), g = call.output_grads[0].astype(computed);
  const int axis = axis_of<CrossEntropyAttributes>(call.attributes);
  const NDArray p = softmax(logits, axis);
  const NDArray mean_g = sum(p * g, {axis}, true);
  const auto& how = call.attributes.as<CrossEntropyAttributes>();
  const NDArray hidden = how.ignores ? detail::rows_of_label(labels, how.ignored_label) : NDArray();
  Arrays grads(4);
  if (call.wanted[0]) {
    const NDArray of_logits = dy.expand_dims(axis) * p * (g - mean_g);
    grads[0] = (how.ignores ? where(hidden.expand_dims(axis), 0, of_logits) : of_logits).astype(call.inputs[0].dtype());
  }
  if (call.wanted[3]) {
    const IndexMode mode = how.ignores ? IndexMode::clip : IndexMode::raise;
    const NDArray of_losses = mean_g.squeeze(axis) - pick(g, labels, axis, mode);
    grads[3] = how.ignores ? where(hidden, 0, of_losses) : of_losses;
  }
  return grads;
}

// -pick(log_probs, labels), and its gradient: their kernels, for labels, under a name that errors then have.
template <detail::PickKernel pick_kernel>
void negative_pick(const KernelCall& call) {
  const auto& how = call.attributes.as<LikelihoodAttributes>();
  pick_kernel(
      call,
      {.axis = how.axis,
       .mode = detail::k_label_mode,
       .negative = true,
       .ignored = {how.ignored.value_or(0), how.ignored.has_value()}});
}

Arrays likelihood_gradient(const GradientCall& call) {
  Arrays grads(2);
  grads[0] = invoke_one(
      k_negative_log_likelihood_backward,
      {call.inputs[1], call.output_grads[0], shape_only(call.input_specs[0])},
      call.attributes,
      {});
  return grads;
}

Arrays likelihood_backward_gradient(const GradientCall& call) {
  Arrays grads(3);
  grads[1] = invoke_one(k_negative_log_likelihood, {call.output_grads[0], call.inputs[0]}, call.attributes, {});
  return grads;
}

}  // namespace

constinit const Operator k_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .inputs = 2,
    .outputs = 2,
    .attributes = &attribute_type<CrossEntropyAttributes>,
    .normalise = detail::normalise_axis<CrossEntropyAttributes>,
    .infer = infer_cross_entropy,
    .kernels =
        {on_cpu(detail::softmax_cross_entropy_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::softmax_cross_entropy_gpu))},
    .gradient = cross_entropy_gradient,
    .saved_inputs = k_all,
    .saved_outputs = 0b10,
    .widened = widened,
};
constinit const Operator k_softmax_cross_entropy_backward = {
    .name = "softmax_cross_entropy_backward",
    .inputs = 4,
    .attributes = &attribute_type<CrossEntropyAttributes>,
    .normalise = detail::normalise_axis<CrossEntropyAttributes>,
    .infer = infer_cross_entropy_backward,
    .kernels =
        {on_cpu(detail::softmax_cross_entropy_backward_cpu),
         on_gpu(SLUICE_GPU_KERNEL(detail::softmax_cross_entropy_backward_gpu))},
    .gradient = cross_entropy_backward_gradient,
    .saved_inputs = 0b1011,
};
constinit const Operator k_softmax_cross_entropy_both = {
    .name = "softmax_cross_entropy_both",
    .inputs = 3,
    .outputs = 3,
    .attributes = &attribute_type<CrossEntropyAttributes>,
    .normalise = detail::normalise_axis<CrossEntropyAttributes>,
    .infer = infer_both,
    .kernels =
        {on_cpu(detail::softmax_cross_entropy_both_cpu),
         on_gpu(SLUICE_GPU_KERNEL(detail::softmax_cross_entropy_both_gpu))},
};
constinit const Operator k_negative_log_likelihood = {
    .name = "negative_log_likelihood",
    .inputs = 2,
    .attributes = &attribute_type<LikelihoodAttributes>,
    .normalise = detail::normalise_axis<LikelihoodAttributes>,
    .infer = infer_likelihood,
    .kernels = {on_cpu(negative_pick<detail::pick_cpu>), on_gpu(SLUICE_GPU_KERNEL(negative_pick<detail::pick_gpu>))},
    .gradient = likelihood_gradient,
    .saved_inputs = 0b10,
};
constinit const Operator k_negative_log_likelihood_backward = {
    .name = "negative_log_likelihood_backward",
    .inputs = 3,
    .attributes = &attribute_type<LikelihoodAttributes>,
    .normalise = detail::normalise_axis<LikelihoodAttributes, 2>,
    .infer = infer_likelihood_backward,
    .kernels =
        {on_cpu(negative_pick<detail::pick_backward_cpu>),
         on_gpu(SLUICE_GPU_KERNEL(negative_pick<detail::pick_backward_gpu>))},
    .gradient = likelihood_backward_gradient,
    .saved_inputs = 0b01,
    .shape_inputs = 0b100,
};

NDArray softmax_cross_entropy(const NDArray& logits, const NDArray& labels, int axis, SourceLocation site) {
  const NDArray inputs[] = {logits, labels};
  return invoke(k_softmax_cross_entropy, inputs, Attributes::of(CrossEntropyAttributes{axis}), site)[0];
}

NDArray negative_log_likelihood(const NDArray& log_probs, const NDArray& labels, int axis, SourceLocation site) {
  return invoke_one(k_negative_log_likelihood, {log_probs, labels}, Attributes::of(LikelihoodAttributes{axis}), site);
}

void detail::cross_entropy_in_two(const KernelCall& call, Kernel forward, Kernel backward) {
  forward({k_softmax_cross_entropy, call.queue, call.inputs.first(2), call.outputs.first(2), call.attributes});
  const TensorView inputs[] = {call.inputs[0], call.inputs[1], call.outputs[1], call.inputs[2]};
  backward({k_softmax_cross_entropy_backward, call.queue, inputs, call.outputs.last(1), call.attributes});
}

detail::OperatorList detail::softmax_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_softmax,
      &k_softmax_backward,
      &k_log_softmax,
      &k_log_softmax_backward,
      &k_masked_softmax,
      &k_masked_log_softmax,
      &k_softmin,
      &k_glu,
      &k_softmax_cross_entropy,
      &k_softmax_cross_entropy_backward,
      &k_softmax_cross_entropy_both,
      &k_negative_log_likelihood,
      &k_negative_log_likelihood_backward,
      &k_weighted_cross_entropy,
      &k_weighted_likelihood};
  return list;
}

}  // namespace sluice
