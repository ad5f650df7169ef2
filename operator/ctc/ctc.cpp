#include <vector>

#include <sluice/operator/ctc/alignment.h>
#include <sluice/operator/ctc/ctc.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice {

namespace {

using detail::CtcAttributes;

// data, labels, lengths from `first` on; gives (T, N, C).
void check_ctc(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes, std::size_t first) {
  const auto& how = attributes.as<CtcAttributes>();
  const std::size_t wanted = first + (how.use_data_lengths ? 1 : 0) + (how.use_label_lengths ? 1 : 0);
  require<ValueError>(inputs.size() == wanted, [&] {
    return message(op.name, ": takes ", wanted, " inputs as lengths are used, was given ", inputs.size());
  });
  const ArraySpec &x = inputs[0], &labels = inputs[1];
  require<DTypeError>(is_floating(x.dtype), [&] { return message(op.name, ": takes floating types, not ", x.dtype); });
  require<ShapeError>(x.shape.ndim() == 3 && x.shape[2] >= 1, [&] {
    return message(op.name, ": data must be (T, N, C) of at least a class, the blank, not ", x.shape);
  });
  require<DTypeError>(is_integer(labels.dtype), [&] {
    return message(op.name, ": labels are class indices of an integer type, not ", labels.dtype);
  });
  require<ShapeError>(labels.shape.ndim() == 2 && labels.shape[0] == x.shape[1], [&] {
    return message(op.name, ": labels of shape ", labels.shape, " are not (N, L) beside data (T, N, C) of ", x.shape);
  });
  for (std::size_t i = first; i < inputs.size(); ++i) {
    require<DTypeError>(is_integer(inputs[i].dtype), [&] {
      return message(op.name, ": lengths are of an integer type, not ", inputs[i].dtype);
    });
    require<ShapeError>(inputs[i].shape == Shape{x.shape[1]}, [&] {
      return message(op.name, ": lengths of shape ", inputs[i].shape, " for ", x.shape[1], " sequences");
    });
  }
}

Specs infer_loss(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(
      inputs.size() >= 2, [&] { return message(op.name, ": takes data and labels, was given ", inputs.size()); });
  check_ctc(op, inputs, attributes, 2);
  return {{{inputs[0].shape[1]}, inputs[0].dtype, inputs[0].device}};
}

void check_wide(const Operator& op, DType dtype) {
  require<DTypeError>(dtype == float32 || dtype == float64, [&] {
    return message(op.name, ": adds up float32 or float64, not ", dtype);
  });
}

ArraySpec alphas_of(std::span<const ArraySpec> inputs) {
  const Shape& x = inputs[0].shape;
  return {{x[1], x[0], 2 * inputs[1].shape[1] + 1}, inputs[0].dtype, inputs[0].device};
}

Specs infer_alignment(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Specs loss = infer_loss(op, inputs, attributes);
  check_wide(op, inputs[0].dtype);
  return {loss[0], alphas_of(inputs)};
}

// log_probs, labels, alphas, dy, lengths
Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() >= 4, [&] {
    return message(op.name, ": takes log_probs, labels, alphas and dy, was given ", inputs.size());
  });
  check_ctc(op, inputs, attributes, 4);
  const ArraySpec &x = inputs[0], &dy = inputs[3], alphas = alphas_of(inputs);
  check_wide(op, x.dtype);
  require<ShapeError>(inputs[2].shape == alphas.shape && dy.shape == Shape{x.shape[1]}, [&] {
    return message(op.name, ": alphas of shape ", inputs[2].shape, " and dy of ", dy.shape, " for data of ", x.shape);
  });
  require<DTypeError>(inputs[2].dtype == x.dtype && dy.dtype == x.dtype, [&] {
    return message(op.name, ": alphas of ", inputs[2].dtype, " and dy of ", dy.dtype, " for data of ", x.dtype);
  });
  return {x};
}

Arrays composed(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  infer_loss(detail::k_ctc_loss, detail::specs_of(inputs), attributes);
  const DType own = inputs[0].dtype();
  Arrays given(inputs.begin(), inputs.end());
  given[0] = log_softmax(inputs[0].astype(detail::wide_type(own), site), 2, site);
  return {invoke(detail::k_ctc_alignment, given, attributes, site)[0].astype(own, site)};
}

Arrays alignment_gradient(const GradientCall& call) {
  Arrays grads(call.input_specs.size());
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined() || !call.wanted[0])
    return grads;
  if (autograd::is_recording()) {
    grads[0] = detail::ctc_recorded_gradient(call);
    return grads;
  }
  std::vector<NDArray> inputs{call.inputs[0], call.inputs[1], call.outputs[1].detach(), dy};
  inputs.insert(inputs.end(), call.inputs.begin() + 2, call.inputs.end());
  grads[0] = invoke(detail::k_ctc_alignment_backward, inputs, call.attributes, SourceLocation::current())[0];
  return grads;
}

}  // namespace

namespace detail {

constinit const Operator k_ctc_loss{
    .name = "ctc_loss",
    .inputs = -1,
    .attributes = &attribute_type<CtcAttributes>,
    .infer = infer_loss,
    .composition = composed,
};
constinit const Operator k_ctc_alignment{
    .name = "ctc_alignment",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<CtcAttributes>,
    .infer = infer_alignment,
    .kernels = {on_cpu(ctc_alignment_cpu), on_gpu(SLUICE_GPU_KERNEL(ctc_alignment_gpu))},
    .gradient = alignment_gradient,
    .saved_inputs = k_all,
    .saved_outputs = 0b10,
};
constinit const Operator k_ctc_alignment_backward{
    .name = "ctc_alignment_backward",
    .inputs = -1,
    .attributes = &attribute_type<CtcAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(ctc_alignment_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(ctc_alignment_backward_gpu))},
};

OperatorList ctc_operators() noexcept {
  static constexpr const Operator* list[] = {&k_ctc_loss, &k_ctc_alignment, &k_ctc_alignment_backward};
  return list;
}

}  // namespace detail

NDArray ctc_loss(const NDArray& data, const NDArray& labels, const CtcLossOptions& options, SourceLocation site) {
  const CtcAttributes how{
      options.data_lengths.defined(),
      options.label_lengths.defined(),
      options.blank == BlankLabel::first,
      options.zero_infinity};
  std::vector<NDArray> inputs{data, labels};
  for (const NDArray& lengths : {options.data_lengths, options.label_lengths}) {
    if (lengths.defined())
      inputs.push_back(lengths);
  }
  return invoke(detail::k_ctc_loss, inputs, Attributes::of(how), site)[0];
}

}  // namespace sluice
